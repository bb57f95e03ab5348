#include <stiefel/schedules.h>

#include <algorithm>
#include <cmath>

namespace stiefel {

namespace schedules {

Factor multi_step(std::vector<double> milestones, double gamma) {
  TORCH_CHECK(gamma > 0 && std::isfinite(gamma), "stiefel: gamma must be positive; got ", gamma);
  std::sort(milestones.begin(), milestones.end());
  return [milestones = std::move(milestones), gamma](double time) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), time) - milestones.begin();
    return std::pow(gamma, static_cast<double>(passed));
  };
}

Factor cosine(double duration, double floor) {
  TORCH_CHECK(duration > 0, "stiefel: a cosine needs a duration above 0; got ", duration);
  TORCH_CHECK(floor >= 0 && floor <= 1, "stiefel: a cosine's floor must lie in [0, 1]; got ", floor);
  return [duration, floor](double time) {
    const double way = std::clamp(time / duration, 0.0, 1.0);
    return floor + (1 - floor) * 0.5 * (1 + std::cos(M_PI * way));
  };
}

Factor warm_up(double duration, double start) {
  TORCH_CHECK(duration > 0, "stiefel: a warm-up needs a duration above 0; got ", duration);
  TORCH_CHECK(start >= 0 && start <= 1, "stiefel: a warm-up must start in [0, 1]; got ", start);
  return
      [duration, start](double time) { return start + (1 - start) * std::clamp(time / duration, 0.0, 1.0); };
}

Factor product(std::vector<Factor> factors) {
  return [factors = std::move(factors)](double time) {
    double result = 1;
    for (const auto& factor : factors) result *= factor(time);
    return result;
  };
}

Factor then(Factor first, double at, Factor second) {
  return [first = std::move(first), at, second = std::move(second)](double time) {
    return time < at ? first(time) : second(time - at);
  };
}

}  // namespace schedules

Schedule::Schedule(std::vector<double> base_rates, schedules::Factor factor)
    : base_rates_(std::move(base_rates)), factor_(std::move(factor)) {}

Schedule::Schedule(const torch::optim::Optimizer& optimizer, schedules::Factor factor)
    : factor_(std::move(factor)) {
  for (const auto& group : optimizer.param_groups()) base_rates_.push_back(group.options().get_lr());
}

void Schedule::apply(torch::optim::Optimizer& optimizer, double time) const {
  auto& groups = optimizer.param_groups();
  TORCH_CHECK(groups.size() == base_rates_.size(), "stiefel: the schedule has ", base_rates_.size(),
              " base rates, the optimizer ", groups.size(), " parameter groups");
  const double factor = factor_(time);
  for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(base_rates_[i] * factor);
}

}  // namespace stiefel
