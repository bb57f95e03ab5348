#pragma once

#include <stiefel/optim/manifold_optimizer.h>

#include <memory>
#include <vector>

/// What the optimisers that follow SGD share: Cayley SGD and the retractions.
namespace stiefel {

/// The terms of SGD. `momentum` applies to both kinds of group; `dampening` and `nesterov` to Euclidean
/// groups, with the meaning they have in torch::optim::SGD.
struct SgdTerms {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  void validate(Manifold manifold) const;
  void drop_euclidean();
  void visit(const GroupOptions::Visitor& visitor);
};

/// The chained setters of SGD's terms, on top of another set of options.
template <class Derived, class Base>
class ChainedSgdOptions : public Base {
 public:
  double momentum() const { return terms_.momentum; }
  double dampening() const { return terms_.dampening; }
  bool nesterov() const { return terms_.nesterov; }
  const SgdTerms& terms() const { return terms_; }

  Derived& momentum(double value) {
    terms_.momentum = value;
    return this->self();
  }
  Derived& dampening(double value) {
    terms_.dampening = value;
    return this->self();
  }
  Derived& nesterov(bool value) {
    terms_.nesterov = value;
    return this->self();
  }

  void validate() const override {
    Base::validate();
    terms_.validate(this->manifold());
  }
  void drop_euclidean() override {
    Base::drop_euclidean();
    terms_.drop_euclidean();
  }
  void visit(const GroupOptions::Visitor& visitor) override {
    Base::visit(visitor);
    terms_.visit(visitor);
  }

 protected:
  using Base::Base;

 private:
  SgdTerms terms_;
};

/// `momentum_buffer` is M on the manifold and SGD's buffer elsewhere.
class MomentumParamState : public ParamState {
 public:
  at::Tensor momentum_buffer;
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;
  std::vector<Entry> entries() override;

  /// The buffer, made of zeros in the shape of `point` where there is none yet.
  at::Tensor& buffer_like(const at::Tensor& point);
};

namespace detail {

/// One step of torch::optim::SGD on Euclidean parameters with MomentumParamStates.
void euclidean_sgd_(const GroupOptions& group, const SgdTerms& terms, const StepBatch& batch,
                    GroupRate& rate);

}  // namespace detail

}  // namespace stiefel
