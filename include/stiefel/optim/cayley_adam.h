#pragma once

#include <stiefel/optim/cayley_options.h>
#include <stiefel/optim/manifold_optimizer.h>

#include <tuple>
#include <utility>
#include <vector>

namespace stiefel {

/// Options of Cayley ADAM. Euclidean groups are torch::optim::Adam, or torch::optim::AdamW with
/// `decoupled_weight_decay`.
class CayleyAdamOptions : public ChainedCayleyOptions<CayleyAdamOptions> {
  using Derived = CayleyAdamOptions;

 public:
  using Betas = std::tuple<double, double>;

  CayleyAdamOptions(double lr) : ChainedCayleyOptions(lr) {}  // NOLINT: LibTorch converts from a number

  Betas betas() const { return {beta1_, beta2_}; }
  bool decoupled_weight_decay() const { return decoupled_weight_decay_; }
  CayleyAdamOptions& betas(Betas betas) {
    std::tie(beta1_, beta2_) = betas;
    return *this;
  }
  /// Weight decay as AdamW has it, apart from the gradient.
  STIEFEL_SETTER(bool, decoupled_weight_decay)

  void validate() const override;
  void drop_euclidean() override;
  void visit(const Visitor& visitor) override;

 private:
  double beta1_ = 0.9;
  double beta2_ = 0.99;
  bool decoupled_weight_decay_ = false;
};

/// `exp_avg` is M on the manifold and Adam's first moment elsewhere. `second_moment` (v) and `step` (k) hold
/// one double per matrix; a Euclidean parameter has `exp_avg_sq` instead of the former, and one step count.
class CayleyAdamParamState : public ParamState {
 public:
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor second_moment;
  at::Tensor step;
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;
  std::vector<Entry> entries() override;
};

/// Cayley ADAM (Algorithm 2 of the paper, with k counted from 1 and v from 0) for groups on the Stiefel
/// manifold, and torch's Adam or AdamW for Euclidean ones.
///
///     stiefel::CayleyAdam optimizer(weights, stiefel::CayleyAdamOptions(0.4).betas({0.9, 0.99}));
class CayleyAdam : public ManifoldOptimizer {
 public:
  CayleyAdam(std::vector<torch::optim::OptimizerParamGroup> groups, CayleyAdamOptions defaults);
  CayleyAdam(std::vector<at::Tensor> parameters, CayleyAdamOptions defaults);

 protected:
  std::string name() const override { return "CayleyAdam"; }
  std::unique_ptr<ParamState> new_state() const override;
  at::Tensor momentum_of(const GroupOptions& options, ParamState& state, const at::Tensor& point) override;
  void step_manifold(const GroupOptions& options, const StepBatch& batch, const at::Tensor& rate,
                     const Counters& counters) override;
  void step_euclidean(const GroupOptions& options, const StepBatch& batch, detail::GroupRate& rate) override;
};

}  // namespace stiefel
