#include "muon.h"

#include <algorithm>
#include <cmath>

namespace stiefel::train {

namespace {

torch::optim::SGDParamState& state_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
#if TORCH_VERSION_MAJOR >= 2
  auto& slot = optimizer.state()[parameter.unsafeGetTensorImpl()];
#else
  auto& slot = optimizer.state()[c10::guts::to_string(parameter.unsafeGetTensorImpl())];
#endif
  if (!slot) slot = std::make_unique<torch::optim::SGDParamState>();
  return static_cast<torch::optim::SGDParamState&>(*slot);
}

/// √max(1, c_out/n).
double shape_scale(const at::Tensor& weight) {
  const auto rows = static_cast<double>(weight.size(0));
  const auto columns = static_cast<double>(weight.numel()) / rows;
  return std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace

Muon::Muon(std::vector<torch::optim::OptimizerParamGroup> groups, const torch::optim::SGDOptions& defaults,
           PolarOptions polar)
    : SGD(std::move(groups), defaults), polar_(polar) {
  polar_.validate();
}

void Muon::refresh_rates() {
  rates_.resize(param_groups_.size());
  for (size_t i = 0; i < rates_.size(); ++i) rates_[i].set(param_groups_[i].options().get_lr());
}

at::Tensor Muon::step(LossClosure closure) {
  TORCH_CHECK(!closure, "Muon takes no closure");
  const at::NoGradGuard no_grad;
  refresh_rates();
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(param_groups_[i].options());
    for (auto& parameter : param_groups_[i].params()) {
      if (!parameter.grad().defined()) continue;
      auto weight = parameter.detach();
      auto& state = state_of(*this, parameter);
      if (!state.momentum_buffer().defined()) state.momentum_buffer(at::zeros_like(weight));
      auto m = state.momentum_buffer();
      m.mul_(options.momentum()).add_(parameter.grad());
      const auto followed = options.nesterov() ? parameter.grad().add(m, options.momentum()) : m;
      const auto rate = rates_[i].on(weight.device(), weight.scalar_type());
      auto direction = polar_direction(followed, polar_);
      if (options.weight_decay() != 0) weight.sub_(weight * (rate * options.weight_decay()));
      weight.sub_(direction.mul_(rate * shape_scale(weight)));
    }
  }
  return {};
}

}  // namespace stiefel::train
