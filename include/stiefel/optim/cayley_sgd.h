#pragma once

#include <stiefel/optim/cayley_optimizer.h>

#include <utility>
#include <vector>

namespace stiefel {

/// Options of Cayley SGD. `momentum` applies to both kinds of group; `dampening`, `nesterov` and
/// `weight_decay` to Euclidean groups, with the meaning they have in torch::optim::SGD.
class CayleySGDOptions : public ChainedGroupOptions<CayleySGDOptions> {
  using Derived = CayleySGDOptions;

 public:
  CayleySGDOptions(double lr) : ChainedGroupOptions(lr) {}  // NOLINT: LibTorch converts from a number

  double momentum() const { return momentum_; }
  double dampening() const { return dampening_; }
  bool nesterov() const { return nesterov_; }
  STIEFEL_SETTER(double, momentum)
  STIEFEL_SETTER(double, dampening)
  STIEFEL_SETTER(bool, nesterov)

  void validate() const override;
  void drop_euclidean() override;
  void visit(const Visitor& visitor) override;

 private:
  double momentum_ = 0;
  double dampening_ = 0;
  bool nesterov_ = false;
};

class CayleySGDParamState : public ParamState {
 public:
  at::Tensor momentum_buffer;
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;
  std::vector<Entry> entries() override;
};

/// Cayley SGD with momentum (Algorithm 1 of the paper) for groups on the Stiefel manifold, and torch's SGD
/// for Euclidean ones.
///
///     stiefel::CayleySGD optimizer(weights, stiefel::CayleySGDOptions(0.2).momentum(0.9));
class CayleySGD : public CayleyOptimizer {
 public:
  CayleySGD(std::vector<torch::optim::OptimizerParamGroup> groups, CayleySGDOptions defaults);
  CayleySGD(std::vector<at::Tensor> parameters, CayleySGDOptions defaults);

 protected:
  const char* name() const override { return "CayleySGD"; }
  std::unique_ptr<ParamState> new_state() const override;
  at::Tensor& momentum_of(ParamState& state, const at::Tensor& point, at::IntArrayRef batch_shape) override;
  void step_bucket(const GroupOptions& options, const Bucket& bucket, const at::Tensor& rate,
                   const at::Tensor& skipped) override;
  void step_euclidean(const GroupOptions& options, at::Tensor& parameter, const at::Tensor& gradient,
                      ParamState& state) override;
};

}  // namespace stiefel
