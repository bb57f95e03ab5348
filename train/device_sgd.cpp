#include "device_sgd.h"

#include <ATen/ATen.h>

#include "src/compat.h"

namespace stiefel::train {

using torch::optim::SGDOptions;
using torch::optim::SGDParamState;

void DeviceSgd::refresh_rates() {
  if (has_device_rates()) rates_.refresh(param_groups_);
}

at::Tensor DeviceSgd::step(LossClosure closure) {
  if (closure || !has_device_rates()) return SGD::step(std::move(closure));
#if STIEFEL_MULTI_TENSOR_STEPS
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    const auto& options = static_cast<const SGDOptions&>(param_groups_[i].options());
    const auto stepped = with_gradients(param_groups_[i]);
    if (stepped.parameters.empty()) continue;
    std::vector<at::Tensor> buffers;
    if (options.momentum() != 0) {
      for (const auto& parameter : stepped.parameters) {
        auto& slot = state_[state_key(parameter)];
        if (!slot) slot = std::make_unique<SGDParamState>();
        auto& buffer = static_cast<SGDParamState&>(*slot).momentum_buffer();
        // torch's first buffer is the first gradient itself, which is β·0 + g where nothing is dampened.
        lay_out(buffer, parameter);
        buffers.push_back(buffer);
      }
    }
    at::_fused_sgd_(stepped.parameters, stepped.gradients, buffers, options.weight_decay(),
                    options.momentum(), rates_.of(param_groups_, i), options.dampening(), options.nesterov(),
                    /*maximize=*/false, /*is_first_step=*/false);
  }
#endif
  return {};
}

}  // namespace stiefel::train
