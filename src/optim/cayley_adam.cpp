#include <stiefel/optim/cayley_adam.h>

#include <cmath>

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
                                ParamState& base) {
  const auto& options = static_cast<const CayleyAdamOptions&>(group);
  const auto [beta1, beta2] = options.betas();
  auto& state = static_cast<CayleyAdamParamState&>(base);
  if (!state.exp_avg.defined()) {
    state.exp_avg = at::zeros_like(parameter);
    state.exp_avg_sq = at::zeros_like(parameter);
    state.step = at::zeros({}, at::kDouble);  // on the host: a Euclidean step reads it
  }
  const double k = state.step.add_(1).item<double>();
  const double bias1 = 1 - std::pow(beta1, k);
  const double bias2 = 1 - std::pow(beta2, k);

  // As in torch, a complex parameter is a real one of twice the size.
  const auto real = [](const at::Tensor& t) {
    return t.is_complex() ? at::view_as_real(t.resolve_conj()) : t;
  };
  const auto weight = real(parameter);
  const auto average = real(state.exp_avg);
  const auto squares = real(state.exp_avg_sq);
  auto slope = real(gradient);
  if (options.weight_decay() != 0) {
    if (options.decoupled_weight_decay()) {
      weight.mul_(1 - options.lr() * options.weight_decay());
    } else {
      slope = slope.add(weight, options.weight_decay());
    }
  }
  average.mul_(beta1).add_(slope, 1 - beta1);
  squares.mul_(beta2).addcmul_(slope, slope, 1 - beta2);
  const auto denominator = (squares.sqrt() / std::sqrt(bias2)).add_(options.eps());
  weight.addcdiv_(average, denominator, -options.lr() / bias1);
}

}  // namespace stiefel
