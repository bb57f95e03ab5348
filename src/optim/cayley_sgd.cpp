#include <stiefel/optim/cayley_sgd.h>

#include "device.h"

namespace stiefel {

void CayleySGDOptions::validate() const {
  GroupOptions::validate();
  sgd_.validate(manifold());
}

void CayleySGDOptions::drop_euclidean() {
  GroupOptions::drop_euclidean();
  sgd_.drop_euclidean();
}

std::unique_ptr<torch::optim::OptimizerOptions> CayleySGDOptions::clone() const {
  return std::make_unique<CayleySGDOptions>(*this);
}

void CayleySGDOptions::serialize(torch::serialize::OutputArchive& archive) const {
  visit(*this, detail::OptionWriter(archive));
}

void CayleySGDOptions::serialize(torch::serialize::InputArchive& archive) {
  visit(*this, detail::OptionReader(archive));
}

CayleySGD::CayleySGD(std::vector<torch::optim::OptimizerParamGroup> groups, CayleySGDOptions defaults)
    : ManifoldOptimizer(std::move(groups), std::make_unique<CayleySGDOptions>(defaults)) {
  prepare();
}

CayleySGD::CayleySGD(std::vector<at::Tensor> parameters, CayleySGDOptions defaults)
    : CayleySGD(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}},
                std::move(defaults)) {}

std::unique_ptr<ParamState> CayleySGD::new_state() const { return std::make_unique<MomentumParamState>(); }

at::Tensor CayleySGD::momentum_of(const GroupOptions&, ParamState& state, const at::Tensor& point) {
  return static_cast<MomentumParamState&>(state).buffer_like(point);
}

void CayleySGD::step_manifold(const GroupOptions& group, const ParameterBatch& batch, const at::Tensor& rate,
                              const Counters& counters) {
  const auto& options = static_cast<const CayleySGDOptions&>(group);
  cayley_sgd_(batch.points, batch.momenta, batch.gradients, counters.skipped, rate, options.momentum(),
              options.cayley(), options.batched(), counters.off_manifold, batch.sharding);
}

void CayleySGD::step_euclidean(const GroupOptions& group, const ParameterBatch& batch,
                               detail::GroupRate& rate) {
  detail::euclidean_sgd_(group, static_cast<const CayleySGDOptions&>(group).terms(), batch, rate);
}

bool CayleySGD::is_stepped_alone(const GroupOptions& group, const at::Tensor& point) const {
  const auto& options = static_cast<const CayleySGDOptions&>(group);
  return detail::has_kernels_for(point, options.cayley()) ||
         ManifoldOptimizer::is_stepped_alone(group, point);
}

}  // namespace stiefel
