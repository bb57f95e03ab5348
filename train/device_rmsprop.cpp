#include "device_rmsprop.h"

#include <ATen/ATen.h>

#include "src/compat.h"

namespace stiefel::train {

using torch::optim::RMSpropOptions;
using torch::optim::RMSpropParamState;

void DeviceRmsprop::refresh_rates() {
  if (has_device_rates()) rates_.refresh(param_groups_);
}

bool DeviceRmsprop::has_device_rates() const {
  for (const auto& group : param_groups_) {
    const auto& options = static_cast<const RMSpropOptions&>(group.options());
    if (options.momentum() > 0 || options.centered()) return false;
  }
  return GroupRates::suit(param_groups_);
}

at::Tensor DeviceRmsprop::step(LossClosure closure) {
  if (closure || !has_device_rates()) return RMSprop::step(std::move(closure));
#if STIEFEL_MULTI_TENSOR_STEPS
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    const auto& options = static_cast<const RMSpropOptions&>(param_groups_[i].options());
    const auto stepped = with_gradients(param_groups_[i]);
    if (stepped.parameters.empty()) continue;
    std::vector<at::Tensor> squares;
    for (const auto& parameter : stepped.parameters) {
      auto& slot = state_[state_key(parameter)];
      if (!slot) {
        auto state = std::make_unique<RMSpropParamState>();
        state->step(0);
        slot = std::move(state);
      }
      auto& square = static_cast<RMSpropParamState&>(*slot).square_avg();
      lay_out(square, parameter);
      squares.push_back(square);
    }
    auto gradients = stepped.gradients;
    if (options.weight_decay() != 0) {
      gradients = at::_foreach_add(gradients, stepped.parameters, options.weight_decay());
    }
    // v ← αv + (1 − α)g²,  x ← x − l·g/(√v + ε)
    at::_foreach_mul_(squares, options.alpha());
    at::_foreach_addcmul_(squares, gradients, gradients, 1 - options.alpha());
    auto divisors = at::_foreach_sqrt(squares);
    at::_foreach_add_(divisors, options.eps());
    auto moves = at::_foreach_div(gradients, divisors);
    at::_foreach_mul_(moves, rates_.of(param_groups_, i));
    at::_foreach_sub_(stepped.parameters, moves);
  }
#endif
  return {};
}

}  // namespace stiefel::train
