#include <stiefel/optim/sgd_options.h>

#include <cmath>

#include "optim/euclidean_steps.h"

namespace stiefel {

void SgdTerms::validate(Manifold manifold) const {
  TORCH_CHECK(momentum >= 0 && momentum < 1, "stiefel: momentum must lie in [0, 1); got ", momentum);
  TORCH_CHECK(std::isfinite(dampening), "stiefel: dampening must be finite; got ", dampening);
  TORCH_CHECK(!nesterov || (momentum > 0 && dampening == 0),
              "stiefel: nesterov needs a momentum above 0 and no dampening; got momentum ", momentum,
              " and dampening ", dampening);
  const bool on_manifold = manifold == Manifold::kStiefel;
  TORCH_CHECK(
      !on_manifold || dampening == 0, "stiefel: dampening is ", dampening,
      " on a group of orthonormal matrices; momentum there has none, set it on Euclidean groups only");
  TORCH_CHECK(
      !on_manifold || !nesterov,
      "stiefel: nesterov is set on a group of orthonormal matrices; momentum there has none, set it on "
      "Euclidean groups only");
}

void SgdTerms::drop_euclidean() {
  dampening = 0;
  nesterov = false;
}

std::unique_ptr<torch::optim::OptimizerParamState> MomentumParamState::clone() const {
  return std::make_unique<MomentumParamState>(*this);
}

std::vector<ParamState::Entry> MomentumParamState::entries() {
  auto all = ParamState::entries();
  all.push_back({"momentum_buffer", &momentum_buffer, false});
  return all;
}

at::Tensor& MomentumParamState::buffer_like(const at::Tensor& point) {
  if (!momentum_buffer.defined()) momentum_buffer = at::zeros_like(point);
  return momentum_buffer;
}

void detail::euclidean_sgd_(const GroupOptions& group, const SgdTerms& terms, const ParameterBatch& batch,
                            GroupRate& rate) {
  std::vector<at::Tensor*> buffers;
  for (auto* state : batch.states) {
    buffers.push_back(&static_cast<MomentumParamState&>(*state).momentum_buffer);
  }
  euclidean_sgd_({batch.points, batch.gradients}, buffers, terms, group.weight_decay(), rate);
}

}  // namespace stiefel
