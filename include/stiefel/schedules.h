#pragma once

#include <torch/optim/optimizer.h>

#include <functional>
#include <vector>

/// Learning-rate schedules as pure functions.
///
/// A factor maps the time, in epochs or steps as the caller counts them, to a multiple of the base rate. It
/// has no state, so a resumed run only has to know what epoch it is.
namespace stiefel {

using Factor = std::function<double(double time)>;

/// 1, times `gamma` from each milestone on. The paper: multi_step({60, 120, 160}, 0.2).
Factor multi_step(std::vector<double> milestones, double gamma);

/// Half a cosine from 1 at time 0 down to `floor` at `duration`, and `floor` after it.
Factor cosine(double duration, double floor = 0);

/// A line from `start` at time 0 up to 1 at `duration`, and 1 after it.
Factor warm_up(double duration, double start = 0);

/// The product of factors, all on the same clock: product({warm_up(5), multi_step({60, 120, 160}, 0.2)}).
Factor product(std::vector<Factor> factors);

/// `first` until `at`, then `second` with its clock started there.
Factor then(Factor first, double at, Factor second);

/// Base rates, one for each parameter group, and the factor that scales them.
class Schedule {
 public:
  /// With these base rates.
  Schedule(std::vector<double> base_rates, Factor factor);

  /// With the rates that the optimiser has now. Construct it before loading a checkpoint, which restores the
  /// rates of the moment it was written.
  Schedule(const torch::optim::Optimizer& optimizer, Factor factor);

  /// Sets each group's rate to base × factor(time).
  void apply(torch::optim::Optimizer& optimizer, double time) const;

  double factor(double time) const { return factor_(time); }
  const std::vector<double>& base_rates() const { return base_rates_; }

 private:
  std::vector<double> base_rates_;
  Factor factor_;
};

}  // namespace stiefel
