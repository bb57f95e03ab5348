#include <stiefel/optim/cayley_muon.h>

#include "device.h"

namespace stiefel {

namespace {

SgdTerms euclidean_terms(const CayleyMuonOptions& options) {
  return {options.momentum(), options.dampening(), options.nesterov()};
}

}  // namespace

void CayleyMuonOptions::validate_method() const {
  muon_.validate();
  cayley_.validate();
}

void CayleyMuonOptions::validate() const {
  GroupOptions::validate();
  euclidean_terms(*this).validate(Manifold::kEuclidean);
  TORCH_CHECK(
      manifold() == Manifold::kEuclidean || dampening_ == 0, "stiefel: dampening is ", dampening_,
      " on a group of orthonormal matrices; momentum there has none, set it on Euclidean groups only");
}

void CayleyMuonOptions::drop_euclidean() {
  GroupOptions::drop_euclidean();
  dampening_ = 0;
}

std::unique_ptr<torch::optim::OptimizerOptions> CayleyMuonOptions::clone() const {
  return std::make_unique<CayleyMuonOptions>(*this);
}

void CayleyMuonOptions::serialize(torch::serialize::OutputArchive& archive) const {
  visit(*this, detail::OptionWriter(archive));
}

void CayleyMuonOptions::serialize(torch::serialize::InputArchive& archive) {
  visit(*this, detail::OptionReader(archive));
}

CayleyMuon::CayleyMuon(std::vector<torch::optim::OptimizerParamGroup> groups, CayleyMuonOptions defaults)
    : ManifoldOptimizer(std::move(groups), std::make_unique<CayleyMuonOptions>(defaults)) {
  prepare();
}

CayleyMuon::CayleyMuon(std::vector<at::Tensor> parameters, CayleyMuonOptions defaults)
    : CayleyMuon(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}},
                 std::move(defaults)) {}

std::unique_ptr<ParamState> CayleyMuon::new_state() const { return std::make_unique<MomentumParamState>(); }

at::Tensor CayleyMuon::momentum_of(const GroupOptions&, ParamState& state, const at::Tensor& point) {
  return static_cast<MomentumParamState&>(state).buffer_like(point);
}

void CayleyMuon::step_manifold(const GroupOptions& group, const ParameterBatch& batch, const at::Tensor& rate,
                               const Counters& counters) {
  const auto& options = static_cast<const CayleyMuonOptions&>(group);
  cayley_muon_(batch.points, batch.momenta, batch.gradients, counters.skipped, rate, options.terms(),
               options.cayley(), options.batched(), counters.off_manifold, batch.sharding);
}

void CayleyMuon::step_euclidean(const GroupOptions& group, const ParameterBatch& batch,
                                detail::GroupRate& rate) {
  detail::euclidean_sgd_(group, euclidean_terms(static_cast<const CayleyMuonOptions&>(group)), batch, rate);
}

bool CayleyMuon::is_stepped_alone(const GroupOptions& group, const at::Tensor& point) const {
  const auto& options = static_cast<const CayleyMuonOptions&>(group);
  return detail::has_kernels_for(point, options.cayley(), &options.terms()) ||
         ManifoldOptimizer::is_stepped_alone(group, point);
}

}  // namespace stiefel
