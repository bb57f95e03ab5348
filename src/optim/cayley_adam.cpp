#include <stiefel/optim/cayley_adam.h>

#include "device.h"
#include "optim/euclidean_steps.h"

namespace stiefel {

void AdamTerms::validate() const {
  TORCH_CHECK(beta1 >= 0 && beta1 < 1, "stiefel: the first of betas must lie in [0, 1); got ", beta1);
  TORCH_CHECK(beta2 >= 0 && beta2 < 1, "stiefel: the second of betas must lie in [0, 1); got ", beta2);
}

void CayleyAdamOptions::validate() const {
  GroupOptions::validate();
  adam_.validate();
}

void CayleyAdamOptions::drop_euclidean() {
  GroupOptions::drop_euclidean();
  adam_.drop_euclidean();
}

std::unique_ptr<torch::optim::OptimizerOptions> CayleyAdamOptions::clone() const {
  return std::make_unique<CayleyAdamOptions>(*this);
}

void CayleyAdamOptions::serialize(torch::serialize::OutputArchive& archive) const {
  visit(*this, detail::OptionWriter(archive));
}

void CayleyAdamOptions::serialize(torch::serialize::InputArchive& archive) {
  visit(*this, detail::OptionReader(archive));
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

void CayleyAdamParamState::check_whole(Manifold manifold) const {
  const auto& squares = manifold == Manifold::kStiefel ? second_moment : exp_avg_sq;
  const bool any = exp_avg.defined() || squares.defined() || step.defined();
  TORCH_CHECK(!any || (exp_avg.defined() && squares.defined() && step.defined()),
              "stiefel: the archive has some of exp_avg, ",
              manifold == Manifold::kStiefel ? "second_moment" : "exp_avg_sq",
              " and step of a parameter, but not all: it is damaged; load another copy");
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
    const auto batch_shape = detail::batch_shape_of(point, options);
    state.exp_avg = at::zeros_like(point);
    state.second_moment = at::zeros(batch_shape, scalar);
    state.step = at::zeros(batch_shape, scalar);
  }
  return state.exp_avg;
}

void CayleyAdam::step_manifold(const GroupOptions& group, const ParameterBatch& batch, const at::Tensor& rate,
                               const Counters& counters) {
  const auto& options = static_cast<const CayleyAdamOptions&>(group);
  const auto [beta1, beta2] = options.betas();
  std::vector<at::Tensor> second_moments;
  std::vector<at::Tensor> steps;
  for (auto* base : batch.states) {
    const auto& state = static_cast<const CayleyAdamParamState&>(*base);
    second_moments.push_back(state.second_moment);
    steps.push_back(state.step);
  }
  cayley_adam_(batch.points, batch.momenta, second_moments, steps, batch.gradients, counters.skipped, rate,
               beta1, beta2, options.cayley(), options.batched(), counters.off_manifold, batch.sharding);
}

void CayleyAdam::step_euclidean(const GroupOptions& group, const ParameterBatch& batch,
                                detail::GroupRate& rate) {
  const auto& options = static_cast<const CayleyAdamOptions&>(group);
  std::vector<at::Tensor*> averages;
  std::vector<at::Tensor*> squares;
  std::vector<at::Tensor> steps;
  for (size_t i = 0; i < batch.states.size(); ++i) {
    auto& state = static_cast<CayleyAdamParamState&>(*batch.states[i]);
    if (!state.step.defined()) {
      state.step = at::zeros({}, at::TensorOptions(at::kDouble).device(batch.points[i].device()));
    }
    averages.push_back(&state.exp_avg);
    squares.push_back(&state.exp_avg_sq);
    steps.push_back(state.step);
  }
  detail::euclidean_adam_({batch.points, batch.gradients}, averages, squares, steps, options.terms(),
                          options.eps(), options.weight_decay(), rate);
}

bool CayleyAdam::is_stepped_alone(const GroupOptions& group, const at::Tensor& point) const {
  const auto& options = static_cast<const CayleyAdamOptions&>(group);
  return detail::has_kernels_for(point, options.cayley()) ||
         ManifoldOptimizer::is_stepped_alone(group, point);
}

}  // namespace stiefel
