#include "device_adam.h"

#include <ATen/ATen.h>
#include <torch/serialize/archive.h>

#include <optional>
#include <type_traits>

#include "src/compat.h"

namespace stiefel::train {

template <class Adam, class Options, class State>
void DeviceAdamOf<Adam, Options, State>::refresh_rates() {
  if (has_device_rates()) rates_.refresh(this->param_groups_);
}

template <class Adam, class Options, class State>
bool DeviceAdamOf<Adam, Options, State>::has_device_rates() const {
  for (const auto& group : this->param_groups_) {
    if (static_cast<const Options&>(group.options()).amsgrad()) return false;  // nobody asks for it
  }
  return GroupRates::suit(this->param_groups_);
}

template <class Adam, class Options, class State>
at::Tensor DeviceAdamOf<Adam, Options, State>::step(torch::optim::Optimizer::LossClosure closure) {
  if (closure || !has_device_rates()) return Adam::step(std::move(closure));
#if STIEFEL_MULTI_TENSOR_STEPS
  const at::NoGradGuard no_grad;
  using Fused = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                     at::TensorList, const at::Tensor&, double, double, double, double, bool, bool,
                     const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
  constexpr bool apart = std::is_same_v<Adam, torch::optim::AdamW>;
  Fused* const step_ = apart ? static_cast<Fused*>(at::_fused_adamw_) : static_cast<Fused*>(at::_fused_adam_);
  auto& groups = this->param_groups_;
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto& options = static_cast<const Options&>(groups[i].options());
    const auto stepped = with_gradients(groups[i]);
    if (stepped.parameters.empty()) continue;
    std::vector<at::Tensor> averages;
    std::vector<at::Tensor> squares;
    std::vector<at::Tensor> steps;
    for (const auto& parameter : stepped.parameters) {
      auto& slot = this->state_[state_key(parameter)];
      if (!slot) slot = std::make_unique<State>();
      auto& state = static_cast<State&>(*slot);
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
    step_(stepped.parameters, stepped.gradients, averages, squares, {}, steps, rates_.of(groups, i), beta1,
          beta2, options.weight_decay(), options.eps(), /*amsgrad=*/false, /*maximize=*/false, {}, {});
  }
#endif
  return {};
}

template <class Adam, class Options, class State>
void DeviceAdamOf<Adam, Options, State>::save(torch::serialize::OutputArchive& archive) const {
  for (const auto& entry : counts_) {
    entry.second.state->step(static_cast<int64_t>(entry.second.steps.template item<float>()));
  }
  Adam::save(archive);
}

template <class Adam, class Options, class State>
void DeviceAdamOf<Adam, Options, State>::load(torch::serialize::InputArchive& archive) {
  counts_.clear();
  Adam::load(archive);
}

template class DeviceAdamOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
template class DeviceAdamOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

}  // namespace stiefel::train
