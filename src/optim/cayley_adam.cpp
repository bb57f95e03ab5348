#include <stiefel/optim/cayley_adam.h>

#include "optim/euclidean.h"

namespace stiefel {

void CayleyAdamOptions::validate() const {
  CayleyGroupOptions::validate();
  TORCH_CHECK(beta1_ >= 0 && beta1_ < 1, "stiefel: the first of betas must lie in [0, 1); got ", beta1_);
  TORCH_CHECK(beta2_ >= 0 && beta2_ < 1, "stiefel: the second of betas must lie in [0, 1); got ", beta2_);
}

void CayleyAdamOptions::drop_euclidean() {
  CayleyGroupOptions::drop_euclidean();
  decoupled_weight_decay_ = false;
}

void CayleyAdamOptions::visit(const Visitor& visitor) {
  CayleyGroupOptions::visit(visitor);
  visitor.number("beta1", beta1_);
  visitor.number("beta2", beta2_);
  visitor.flag("decoupled_weight_decay", decoupled_weight_decay_);
}

std::unique_ptr<torch::optim::OptimizerParamState> CayleyAdamParamState::clone() const {
  return std::make_unique<CayleyAdamParamState>(*this);
}

std::vector<ParamState::Entry> CayleyAdamParamState::entries() {
  auto all = ParamState::entries();
  all.push_back({"exp_avg", &exp_avg, false});
  all.push_back({"exp_avg_sq", &exp_avg_sq, false});
  all.push_back({"second_moment", &second_moment, true});
  all.push_back({"step", &step, true});
  return all;
}

CayleyAdam::CayleyAdam(std::vector<torch::optim::OptimizerParamGroup> groups, CayleyAdamOptions defaults)
    : ManifoldOptimizer(std::move(groups), std::make_unique<CayleyAdamOptions>(defaults)) {
  prepare();
}

CayleyAdam::CayleyAdam(std::vector<at::Tensor> parameters, CayleyAdamOptions defaults)
    : CayleyAdam(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}},
                 std::move(defaults)) {}

std::unique_ptr<ParamState> CayleyAdam::new_state() const { return std::make_unique<CayleyAdamParamState>(); }

at::Tensor CayleyAdam::momentum_of(const GroupOptions& options, ParamState& base, const at::Tensor& point) {
  auto& state = static_cast<CayleyAdamParamState&>(base);
  if (!state.exp_avg.defined()) {
    const auto scalar = at::TensorOptions(at::kDouble).device(point.device());
    const auto batch_shape = MatrixView(point, options.batched()).batch_shape();
    state.exp_avg = at::zeros_like(point);
    state.second_moment = at::zeros(batch_shape, scalar);
    state.step = at::zeros(batch_shape, scalar);
  }
  return state.exp_avg;
}

void CayleyAdam::step_bucket(const GroupOptions& group, const Bucket& bucket, const at::Tensor& rate,
                             const Counters& counters) {
  const auto& options = static_cast<const CayleyAdamOptions&>(group);
  const auto [beta1, beta2] = options.betas();
  std::vector<at::Tensor> second_moments;
  std::vector<at::Tensor> steps;
  for (auto* base : bucket.states) {
    const auto& state = static_cast<const CayleyAdamParamState&>(*base);
    second_moments.push_back(state.second_moment);
    steps.push_back(state.step);
  }
  cayley_adam_(bucket.points, bucket.momenta, second_moments, steps, bucket.gradients, counters.skipped, rate,
               beta1, beta2, options.cayley(), options.batched(), counters.off_manifold);
}

void CayleyAdam::step_euclidean(const GroupOptions& group, at::Tensor& parameter, const at::Tensor& gradient,
                                const at::Tensor& rate, ParamState& base) {
  const auto& options = static_cast<const CayleyAdamOptions&>(group);
  const auto [beta1, beta2] = options.betas();
  auto& state = static_cast<CayleyAdamParamState&>(base);
  if (!state.exp_avg.defined()) {
    state.exp_avg = at::zeros_like(parameter);
    state.exp_avg_sq = at::zeros_like(parameter);
    state.step = at::zeros({}, at::TensorOptions(at::kDouble).device(parameter.device()));
  }
  // As in torch, a complex parameter is a real one of twice the size.
  const auto real = [](const at::Tensor& t) {
    return t.is_complex() ? at::view_as_real(t.resolve_conj()) : t;
  };
  const detail::AdamTerms terms{beta1, beta2, options.eps(), options.weight_decay(),
                                options.decoupled_weight_decay()};
  const auto step = [&](const auto& at_rate) {
    detail::euclidean_adam_(real(parameter), real(gradient), real(state.exp_avg), real(state.exp_avg_sq),
                            state.step, terms, at_rate);
  };
  if (parameter.device().is_cpu()) {
    step(options.lr());
  } else {
    step(rate);
  }
}

}  // namespace stiefel
