#include <stiefel/optim/euclidean.h>
#include <torch/serialize/archive.h>

#include "compat.h"
#include "optim/euclidean_steps.h"

namespace stiefel {

namespace detail {

namespace {

/// The state of a parameter in torch's map, made by `make` at the first step.
template <class State, class States, class Make>
State& state_in(States& states, const at::Tensor& parameter, Make make) {
  auto& slot = states[state_key(parameter)];
  if (!slot) slot = make();
  return static_cast<State&>(*slot);
}

}  // namespace

template <class Base>
void DeviceOptimizer<Base>::refresh_rates() {
  auto& groups = this->param_groups_;
  rates_.resize(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) rates_[i].set(groups[i].options().get_lr());
}

template <class Base>
bool DeviceOptimizer<Base>::has_device_rates() const {
  for (const auto& group : this->param_groups_) {
    if (!covers(group.options())) return false;
    for (const auto& parameter : group.params()) {
      if (parameter.device().is_cpu() || !at::isFloatingType(parameter.scalar_type())) return false;
      if (parameter.grad().defined() && parameter.grad().is_sparse()) return false;
    }
  }
  return true;
}

template <class Base>
void DeviceOptimizer<Base>::load(torch::serialize::InputArchive& archive) {
  auto& states = this->state_;
  auto before = std::move(states);  // torch writes group by group, whatever comes after
  states.clear();
  try {
    Base::load(archive);
    for (const auto& entry : states) {
      TORCH_CHECK(entry.second,
                  "stiefel: the archive names one state for several parameters: it is damaged; ",
                  "load another copy");
    }
  } catch (const c10::Error&) {
    states = std::move(before);
    throw;
  } catch (const std::exception& error) {  // an entry that torch does not find
    states = std::move(before);
    TORCH_CHECK(false, "stiefel: the archive does not hold what this optimizer saves: ", error.what());
  }
  for (auto& entry : before) {
    if (states.find(entry.first) == states.end()) states[entry.first] = std::move(entry.second);
  }
}

template <class Base>
at::Tensor DeviceOptimizer<Base>::step(torch::optim::Optimizer::LossClosure closure) {
  if (!has_device_rates()) return Base::step(std::move(closure));
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  const at::NoGradGuard no_grad;
  refresh_rates();
  for (size_t i = 0; i < rates_.size(); ++i) {
    const auto& group = this->param_groups_[i];
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> gradients;
    for (const auto& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      parameters.push_back(parameter);
      gradients.push_back(parameter.grad());
    }
    if (!parameters.empty()) step_group(group.options(), parameters, gradients, rates_[i]);
  }
  return loss;
}

template <class Base, class Options, class State>
bool DeviceAdam<Base, Options, State>::covers(const torch::optim::OptimizerOptions& options) const {
  return !static_cast<const Options&>(options).amsgrad();
}

template <class Base, class Options, class State>
void DeviceAdam<Base, Options, State>::step_group(const torch::optim::OptimizerOptions& group,
                                                  const std::vector<at::Tensor>& parameters,
                                                  const std::vector<at::Tensor>& gradients, GroupRate& rate) {
  const auto& options = static_cast<const Options&>(group);
  std::vector<at::Tensor*> averages;
  std::vector<at::Tensor*> squares;
  std::vector<at::Tensor> steps;
  for (const auto& parameter : parameters) {
    auto& state = state_in<State>(this->state_, parameter, [] { return std::make_unique<State>(); });
    averages.push_back(&state.exp_avg());
    squares.push_back(&state.exp_avg_sq());
    auto& count = counts_[parameter.unsafeGetTensorImpl()];
    if (!count.steps.defined()) {
      const auto scalar = at::TensorOptions(at::kFloat).device(parameter.device());
      count = {&state, at::full({}, static_cast<double>(state.step()), scalar)};
    }
    steps.push_back(count.steps);
  }
  const auto [beta1, beta2] = options.betas();
  constexpr bool decoupled = std::is_same_v<Base, torch::optim::AdamW>;
  euclidean_adam_({parameters, gradients}, averages, squares, steps, {beta1, beta2, decoupled}, options.eps(),
                  options.weight_decay(), rate);
}

template <class Base, class Options, class State>
void DeviceAdam<Base, Options, State>::save(torch::serialize::OutputArchive& archive) const {
  for (const auto& entry : counts_) {
    entry.second.state->step(static_cast<int64_t>(entry.second.steps.template item<float>()));
  }
  Base::save(archive);
}

template <class Base, class Options, class State>
void DeviceAdam<Base, Options, State>::load(torch::serialize::InputArchive& archive) {
  DeviceOptimizer<Base>::load(archive);
  counts_.clear();
}

template class DeviceOptimizer<torch::optim::SGD>;
template class DeviceOptimizer<torch::optim::Adam>;
template class DeviceOptimizer<torch::optim::AdamW>;
template class DeviceOptimizer<torch::optim::RMSprop>;
template class DeviceAdam<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
template class DeviceAdam<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

}  // namespace detail

bool SGD::covers(const torch::optim::OptimizerOptions&) const { return true; }

void SGD::step_group(const torch::optim::OptimizerOptions& group, const std::vector<at::Tensor>& parameters,
                     const std::vector<at::Tensor>& gradients, detail::GroupRate& rate) {
  using State = torch::optim::SGDParamState;
  const auto& options = static_cast<const torch::optim::SGDOptions&>(group);
  std::vector<at::Tensor> unused(parameters.size());
  std::vector<at::Tensor*> buffers;
  for (size_t i = 0; i < parameters.size(); ++i) {
    // Without momentum there is no state, as in torch.
    buffers.push_back(options.momentum() == 0 ? &unused[i]
                                              : &detail::state_in<State>(state_, parameters[i], [] {
                                                   return std::make_unique<State>();
                                                 }).momentum_buffer());
  }
  detail::euclidean_sgd_({parameters, gradients}, buffers,
                         {options.momentum(), options.dampening(), options.nesterov()},
                         options.weight_decay(), rate);
}

bool RMSprop::covers(const torch::optim::OptimizerOptions& group) const {
  const auto& options = static_cast<const torch::optim::RMSpropOptions&>(group);
  return options.momentum() == 0 && !options.centered();
}

void RMSprop::step_group(const torch::optim::OptimizerOptions& group,
                         const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                         detail::GroupRate& rate) {
  using State = torch::optim::RMSpropParamState;
  const auto& options = static_cast<const torch::optim::RMSpropOptions&>(group);
  std::vector<at::Tensor*> squares;
  for (const auto& parameter : parameters) {
    auto& state = detail::state_in<State>(state_, parameter, [] {
      auto made = std::make_unique<State>();
      made->step(0);
      return made;
    });
    squares.push_back(&state.square_avg());
  }
  detail::euclidean_rmsprop_({parameters, gradients}, squares, options.alpha(), options.eps(),
                             options.weight_decay(), rate);
}

}  // namespace stiefel
