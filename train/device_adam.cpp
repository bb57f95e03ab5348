#include "device_adam.h"

#include <ATen/ATen.h>
#include <torch/serialize/archive.h>

#include "src/compat.h"

namespace stiefel::train {

using torch::optim::AdamOptions;
using torch::optim::AdamParamState;

void DeviceAdam::refresh_rates() {
  if (has_device_rates()) rates_.refresh(param_groups_);
}

bool DeviceAdam::has_device_rates() const {
  for (const auto& group : param_groups_) {
    if (static_cast<const AdamOptions&>(group.options()).amsgrad()) return false;  // nobody asks for it
  }
  return GroupRates::suit(param_groups_);
}

at::Tensor DeviceAdam::step(LossClosure closure) {
  if (closure || !has_device_rates()) return Adam::step(std::move(closure));
#if STIEFEL_MULTI_TENSOR_STEPS
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    const auto& options = static_cast<const AdamOptions&>(param_groups_[i].options());
    const auto stepped = with_gradients(param_groups_[i]);
    if (stepped.parameters.empty()) continue;
    std::vector<at::Tensor> averages;
    std::vector<at::Tensor> squares;
    std::vector<at::Tensor> steps;
    for (const auto& parameter : stepped.parameters) {
      auto& slot = state_[state_key(parameter)];
      if (!slot) slot = std::make_unique<AdamParamState>();
      auto& state = static_cast<AdamParamState&>(*slot);
      lay_out(state.exp_avg(), parameter);
      lay_out(state.exp_avg_sq(), parameter);
      averages.push_back(state.exp_avg());
      squares.push_back(state.exp_avg_sq());
      auto& count = counts_[parameter.unsafeGetTensorImpl()];
      if (!count.steps.defined()) {
        const auto scalar = at::TensorOptions(at::kFloat).device(parameter.device());
        count = {&state, at::full({}, static_cast<double>(state.step()), scalar)};
      }
      steps.push_back(count.steps);
    }
    at::_foreach_add_(steps, 1);
    const auto [beta1, beta2] = options.betas();
    at::_fused_adam_(stepped.parameters, stepped.gradients, averages, squares, {}, steps,
                     rates_.of(param_groups_, i), beta1, beta2, options.weight_decay(), options.eps(),
                     /*amsgrad=*/false, /*maximize=*/false);
  }
#endif
  return {};
}

void DeviceAdam::save(torch::serialize::OutputArchive& archive) const {
  for (const auto& entry : counts_) {
    entry.second.state->step(static_cast<int64_t>(entry.second.steps.item<float>()));
  }
  Adam::save(archive);
}

void DeviceAdam::load(torch::serialize::InputArchive& archive) {
  counts_.clear();
  Adam::load(archive);
}

}  // namespace stiefel::train
