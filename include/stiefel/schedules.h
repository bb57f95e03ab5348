#pragma once

#include <stiefel/export.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <utility>
#include <vector>

/// Learning-rate schedules as pure functions.
///
/// A factor maps the time, in epochs or steps as the caller counts them, to a multiple of the base rate. It
/// has no state, so a resumed run only has to know what epoch it is.
namespace stiefel::schedules {

using Factor = std::function<double(double time)>;

/// 1, times `gamma` from each milestone on. The paper: multi_step({60, 120, 160}, 0.2).
STIEFEL_API Factor multi_step(std::vector<double> milestones, double gamma);

/// Half a cosine from 1 at time 0 down to `floor` at `duration`, and `floor` after it.
STIEFEL_API Factor cosine(double duration, double floor = 0);

/// A line from `start` at time 0 up to 1 at `duration`, and 1 after it.
STIEFEL_API Factor warm_up(double duration, double start = 0);

/// The product of factors, all on the same clock: product({warm_up(5), multi_step({60, 120, 160}, 0.2)}).
STIEFEL_API Factor product(std::vector<Factor> factors);

/// `first` until `at`, then `second` with its clock started there.
STIEFEL_API Factor then(Factor first, double at, Factor second);

}  // namespace stiefel::schedules

namespace stiefel {

/// Base rates, one for each parameter group, and the factor that scales them.
class STIEFEL_API Schedule {
 public:
  /// With these base rates.
  Schedule(std::vector<double> base_rates, schedules::Factor factor);

  /// With the rates that the optimiser has now. Construct it before loading a checkpoint, which restores the
  /// rates of the moment it was written.
  Schedule(const torch::optim::Optimizer& optimizer, schedules::Factor factor);

  /// Sets each group's rate to base × factor(time).
  void apply(torch::optim::Optimizer& optimizer, double time) const;

  double factor(double time) const { return factor_(time); }
  const std::vector<double>& base_rates() const { return base_rates_; }

 private:
  std::vector<double> base_rates_;
  schedules::Factor factor_;
};

/// The names before there was a namespace for them.
using Factor [[deprecated("use stiefel::schedules::Factor")]] = schedules::Factor;
[[deprecated("use stiefel::schedules::multi_step")]] inline schedules::Factor multi_step(
    std::vector<double> milestones, double gamma) {
  return schedules::multi_step(std::move(milestones), gamma);
}
[[deprecated("use stiefel::schedules::cosine")]] inline schedules::Factor cosine(double duration,
                                                                                 double floor = 0) {
  return schedules::cosine(duration, floor);
}
[[deprecated("use stiefel::schedules::warm_up")]] inline schedules::Factor warm_up(double duration,
                                                                                   double start = 0) {
  return schedules::warm_up(duration, start);
}
[[deprecated("use stiefel::schedules::product")]] inline schedules::Factor product(
    std::vector<schedules::Factor> factors) {
  return schedules::product(std::move(factors));
}
[[deprecated("use stiefel::schedules::then")]] inline schedules::Factor then(schedules::Factor first,
                                                                             double at,
                                                                             schedules::Factor second) {
  return schedules::then(std::move(first), at, std::move(second));
}

}  // namespace stiefel
