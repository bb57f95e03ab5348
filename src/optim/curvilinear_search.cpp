#include <ATen/core/grad_mode.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/curvilinear_search.h>

#include <algorithm>
#include <cmath>

#include "archive_values.h"

namespace stiefel {

void SearchOptions::validate() const {
  TORCH_CHECK(rho > 0 && rho < 1, "stiefel: rho must lie in (0, 1); got ", rho);
  TORCH_CHECK(shrink > 0 && shrink < 1, "stiefel: shrink must lie in (0, 1); got ", shrink);
  TORCH_CHECK(memory >= 0 && memory < 1, "stiefel: memory must lie in [0, 1); got ", memory);
  TORCH_CHECK(tries >= 1, "stiefel: tries must be 1 or more; got ", tries);
  TORCH_CHECK(least > 0 && least <= most, "stiefel: the step's bounds must be positive and in order; got ",
              least, " and ", most);
}

namespace detail {

using torch::optim::OptimizerParamGroup;

namespace {

/// Re ⟨A, B⟩.
double real_inner(const at::Tensor& a, const at::Tensor& b) {
  const auto flat = [](const at::Tensor& t) {
    return (t.is_complex() ? at::view_as_real(t.resolve_conj()) : t).to(at::kDouble).flatten();
  };
  return flat(a).dot(flat(b)).item<double>();
}

void set_rate(std::vector<OptimizerParamGroup>& groups, double rate) {
  for (auto& group : groups) group.options().set_lr(rate);
}

}  // namespace

/// A parameter, where it is, and its gradient there.
struct Search::Iterate {
  at::Tensor parameter;
  at::Tensor point;
  at::Tensor gradient;
  at::Tensor tangent;

  static std::vector<Iterate> all(std::vector<OptimizerParamGroup>& groups) {
    std::vector<Iterate> iterates;
    for (auto& group : groups) {
      const auto& options = static_cast<const GroupOptions&>(group.options());
      for (auto& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        TORCH_CHECK(parameter.scalar_type() != at::kHalf && parameter.scalar_type() != at::kBFloat16,
                    "stiefel: a curvilinear search needs float or double parameters; got ",
                    parameter.scalar_type());
        const auto point = parameter.detach().clone();
        const auto gradient = parameter.grad().detach().clone();
        const auto tangent = options.manifold() == Manifold::kStiefel
                                 ? project_tangent(point, gradient, options.batched())
                                 : gradient;
        iterates.push_back({parameter, point, gradient, tangent});
      }
    }
    return iterates;
  }

  /// Puts the parameter back, with its gradient.
  void restore() {
    parameter.detach().copy_(point);
    parameter.mutable_grad() = gradient.clone();
  }
};

/// The next τ by Barzilai and Borwein, as the groups' rates.
void Search::propose(std::vector<OptimizerParamGroup>& groups, const std::vector<Iterate>& from,
                     const std::vector<Iterate>& to) {
  if (from.size() != to.size()) return;  // the closure left fewer gradients, or more, than before
  double ss = 0, sy = 0, yy = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto s = to[i].point - from[i].point;
    const auto y = to[i].tangent - from[i].tangent;
    ss += real_inner(s, s);
    sy += real_inner(s, y);
    yy += real_inner(y, y);
  }
  sy = std::abs(sy);
  const double tau = steps_ % 2 == 0 ? ss / sy : sy / yy;
  if (std::isfinite(tau) && tau > 0) set_rate(groups, std::clamp(tau, options_.least, options_.most));
}

at::Tensor Search::step(std::vector<OptimizerParamGroup>& groups, const std::function<at::Tensor()>& closure,
                        const std::function<void()>& move) {
  const auto evaluate = [&] {
    const at::AutoGradMode with_grad(true);
    return closure();
  };
  // The closure also leaves the gradient, so it is asked even where the last step ended here: the user may
  // have changed anything since.
  const auto before = evaluate();
  const at::NoGradGuard no_grad;
  auto from = Iterate::all(groups);
  if (from.empty()) return before;
  const double value = before.item<double>();
  TORCH_CHECK(std::isfinite(value), "stiefel: the function is not finite where the search stands: ", value);
  double slope = 0;  // −df/dτ at 0 is ‖ξ‖²
  for (const auto& iterate : from) slope += real_inner(iterate.tangent, iterate.tangent);
  TORCH_CHECK(std::isfinite(slope), "stiefel: the gradient is not finite where the search stands");
  if (slope == 0) return before;
  if (weight_ == 0) {
    reference_ = value;
    weight_ = 1;
  }

  double tau = groups.front().options().get_lr();
  double reached = value;
  for (int64_t i = 0;; ++i) {
    set_rate(groups, tau);
    move();
    reached = evaluate().item<double>();
    const bool finite = std::isfinite(reached);  // −∞ is no minimum to stop at
    if (finite && reached <= reference_ - options_.rho * tau * slope) break;
    if (finite && (i + 1 >= options_.tries || tau <= options_.least)) break;
    for (auto& iterate : from) iterate.restore();
    TORCH_CHECK(tau > options_.least, "stiefel: the function is not finite anywhere along the search");
    tau = std::max(tau * options_.shrink, options_.least);
  }
  // C ← (ηQC + f)/(ηQ + 1), Q ← ηQ + 1
  const double carried = options_.memory * weight_;
  reference_ = (carried * reference_ + reached) / (carried + 1);
  weight_ = carried + 1;
  ++steps_;
  propose(groups, from, Iterate::all(groups));
  return before;
}

void Search::save(torch::serialize::OutputArchive& archive) const {
  archive.write("search_reference", c10::IValue(reference_));
  archive.write("search_weight", c10::IValue(weight_));
  archive.write("search_steps", c10::IValue(steps_));
}

void Search::load(torch::serialize::InputArchive& archive) {
  const auto reference = read_number(archive, "search_reference");
  const auto weight = read_number(archive, "search_weight");
  const auto steps = read_integer(archive, "search_steps");
  TORCH_CHECK(std::isfinite(reference) && std::isfinite(weight) && weight >= 0 && steps >= 0,
              "stiefel: the archive's search stands at the average ", reference, " of the weight ", weight,
              " after ", steps, " steps, which no search does: it is damaged; load another copy");
  reference_ = reference, weight_ = weight, steps_ = steps;
}

}  // namespace detail

}  // namespace stiefel
