#pragma once

#include <stiefel/cayley.h>
#include <stiefel/export.h>
#include <stiefel/optim/manifold_optimizer.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace stiefel {

/// The terms of ADAM.
struct STIEFEL_API AdamTerms {
  double beta1 = 0.9;
  double beta2 = 0.99;
  bool decoupled_weight_decay =
      false;  ///< Euclidean groups: weight decay as AdamW has it, not in the gradient

  void validate() const;
  void drop_euclidean() { decoupled_weight_decay = false; }

  template <class Self, class Visitor>
  static void visit(Self& self, const Visitor& visitor) {
    visitor("beta1", self.beta1);
    visitor("beta2", self.beta2);
    visitor("decoupled_weight_decay", self.decoupled_weight_decay);
  }
};

/// Options of Cayley ADAM: any group's, how the Cayley transform is computed, and ADAM's terms. Euclidean
/// groups are torch::optim::Adam, or torch::optim::AdamW with `decoupled_weight_decay`.
class STIEFEL_API CayleyAdamOptions : public GroupOptions {
 public:
  using Betas = std::tuple<double, double>;

  CayleyAdamOptions(double lr) : GroupOptions(lr) {}  // NOLINT: LibTorch converts from a number

  STIEFEL_ARG(CayleyAdamOptions, double, lr, lr_)
  STIEFEL_ARG(CayleyAdamOptions, Manifold, manifold, manifold_)
  STIEFEL_ARG(CayleyAdamOptions, bool, batched, batched_)
  STIEFEL_ARG(CayleyAdamOptions, int64_t, shard_dim, shard_dim_)
  STIEFEL_ARG(CayleyAdamOptions, bool, orthonormalize_on_start, orthonormalize_on_start_)
  STIEFEL_ARG(CayleyAdamOptions, double, weight_decay, weight_decay_)
  STIEFEL_ARG(CayleyAdamOptions, double, eps, cayley_.eps)
  STIEFEL_ARG(CayleyAdamOptions, double, q, cayley_.q)
  STIEFEL_ARG(CayleyAdamOptions, int64_t, iterations, cayley_.iterations)
  STIEFEL_ARG(CayleyAdamOptions, bool, exact, cayley_.exact)
  STIEFEL_ARG(CayleyAdamOptions, Norm, norm, cayley_.norm)
  STIEFEL_ARG(CayleyAdamOptions, bool, polish, cayley_.polish)
  STIEFEL_ARG(CayleyAdamOptions, Precision, precision, cayley_.precision)
  const CayleyOptions& cayley() const { return cayley_; }
  STIEFEL_ARG(CayleyAdamOptions, bool, decoupled_weight_decay, adam_.decoupled_weight_decay)
  Betas betas() const { return {adam_.beta1, adam_.beta2}; }
  CayleyAdamOptions& betas(Betas betas) {
    std::tie(adam_.beta1, adam_.beta2) = betas;
    return *this;
  }
  const AdamTerms& terms() const { return adam_; }

  void validate() const override;
  void validate_method() const override { cayley_.validate(); }
  double farthest_start() const override { return cayley_.farthest_start(); }
  void drop_euclidean() override;
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  void serialize(torch::serialize::InputArchive& archive) override;

 private:
  template <class Self, class Visitor>
  static void visit(Self& self, const Visitor& visitor) {
    visit_group(self, visitor);
    CayleyOptions::visit(self.cayley_, visitor);
    AdamTerms::visit(self.adam_, visitor);
  }

  CayleyOptions cayley_;
  AdamTerms adam_;
};

/// `exp_avg` is M on the manifold and Adam's first moment elsewhere. `second_moment` (v) and `step` (k) hold
/// one double per matrix; a Euclidean parameter has `exp_avg_sq` instead of the former, and one step count.
class STIEFEL_API CayleyAdamParamState : public ParamState {
 public:
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor second_moment;
  at::Tensor step;
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;
  std::vector<Entry> entries() override;
  void check_whole(Manifold manifold) const override;
};

/// Cayley ADAM (Algorithm 2 of the paper, with k counted from 1 and v from 0) for groups on the Stiefel
/// manifold, and torch's Adam or AdamW for Euclidean ones.
///
///     stiefel::CayleyAdam optimizer(weights, stiefel::CayleyAdamOptions(0.4).betas({0.9, 0.99}));
class STIEFEL_API CayleyAdam : public ManifoldOptimizer {
 public:
  CayleyAdam(std::vector<torch::optim::OptimizerParamGroup> groups, CayleyAdamOptions defaults);
  CayleyAdam(std::vector<at::Tensor> parameters, CayleyAdamOptions defaults);

 protected:
  std::string name() const override { return "CayleyAdam"; }
  std::unique_ptr<ParamState> new_state() const override;
  at::Tensor momentum_of(const GroupOptions& options, ParamState& state, const at::Tensor& point) override;
  void step_manifold(const GroupOptions& options, const ParameterBatch& batch, const at::Tensor& rate,
                     const Counters& counters) override;
  void step_euclidean(const GroupOptions& options, const ParameterBatch& batch,
                      detail::GroupRate& rate) override;
  bool is_stepped_alone(const GroupOptions& options, const at::Tensor& point) const override;
};

}  // namespace stiefel
