#pragma once

#include <stiefel/export.h>
#include <stiefel/optim/manifold_optimizer.h>

#include <memory>
#include <vector>

/// What the optimisers that follow SGD share: Cayley SGD and the retractions.
namespace stiefel {

/// The terms of SGD. `momentum` applies to both kinds of group; `dampening` and `nesterov` to Euclidean
/// groups, with the meaning they have in torch::optim::SGD.
struct STIEFEL_API SgdTerms {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  void validate(Manifold manifold) const;
  void drop_euclidean();

  template <class Self, class Visitor>
  static void visit(Self& self, const Visitor& visitor) {
    visitor("momentum", self.momentum);
    visitor("dampening", self.dampening);
    visitor("nesterov", self.nesterov);
  }
};

/// `momentum_buffer` is M on the manifold and SGD's buffer elsewhere.
class STIEFEL_API MomentumParamState : public ParamState {
 public:
  at::Tensor momentum_buffer;
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;
  std::vector<Entry> entries() override;

  /// The buffer, made of zeros in the shape of `point` where there is none yet.
  at::Tensor& buffer_like(const at::Tensor& point);
};

namespace detail {

/// One step of torch::optim::SGD on Euclidean parameters with MomentumParamStates.
STIEFEL_API void euclidean_sgd_(const GroupOptions& group, const SgdTerms& terms, const ParameterBatch& batch,
                                GroupRate& rate);

}  // namespace detail

}  // namespace stiefel
