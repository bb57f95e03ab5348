#include "device_rates.h"

#include <ATen/ATen.h>
#include <stiefel/optim/manifold_optimizer.h>

#include "rms_scaling.h"

namespace stiefel::train {

bool GroupRates::suit(const Groups& groups) {
  if (!STIEFEL_MULTI_TENSOR_STEPS) return false;
  for (const auto& group : groups) {
    for (const auto& parameter : group.params()) {
      if (!parameter.is_cuda() || parameter.scalar_type() != at::kFloat) return false;
    }
  }
  return true;
}

const at::Tensor& GroupRates::of(const Groups& groups, size_t group) {
  rates_.resize(groups.size());
  auto& rate = rates_[group];
  const double value = groups[group].options().get_lr();
  if (!rate.tensor.defined()) {
    rate.tensor = at::full({}, value, groups[group].params().at(0).options().requires_grad(false));
  } else if (rate.value != value) {
    rate.tensor.fill_(value);
  }
  rate.value = value;
  return rate.tensor;
}

void GroupRates::refresh(const Groups& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i].params().empty()) of(groups, i);
  }
}

Stepped with_gradients(const torch::optim::OptimizerParamGroup& group) {
  Stepped result;
  for (const auto& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    result.parameters.push_back(parameter);
    result.gradients.push_back(parameter.grad());
  }
  return result;
}

void lay_out(at::Tensor& state, const at::Tensor& parameter) {
  const auto like = parameter.detach();
  if (!state.defined()) {
    state = at::zeros_like(like);
  } else if (state.strides() != like.strides() || state.device() != like.device()) {
    state = at::empty_like(like).copy_(state);
  }
}

void refresh_rates(torch::optim::Optimizer& optimizer) {
  if (auto* ours = dynamic_cast<DeviceRates*>(&optimizer)) {
    ours->refresh_rates();
  } else if (auto* manifold = dynamic_cast<ManifoldOptimizer*>(&optimizer)) {
    manifold->refresh_rates();
  }
}

bool reads_rates_from_device(const torch::optim::Optimizer& optimizer) {
  if (const auto* ours = dynamic_cast<const DeviceRates*>(&optimizer)) return ours->has_device_rates();
  // The first has its rates on the device, the second has none.
  return dynamic_cast<const ManifoldOptimizer*>(&optimizer) != nullptr ||
         dynamic_cast<const RmsScaling*>(&optimizer) != nullptr;
}

}  // namespace stiefel::train
