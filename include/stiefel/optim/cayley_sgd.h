#pragma once

#include <stiefel/optim/cayley_options.h>
#include <stiefel/optim/sgd_options.h>

#include <utility>
#include <vector>

namespace stiefel {

/// Options of Cayley SGD: any group's, how the Cayley transform is computed, and SGD's terms.
class CayleySGDOptions : public ChainedSgdOptions<CayleySGDOptions, ChainedCayleyOptions<CayleySGDOptions>> {
 public:
  CayleySGDOptions(double lr) : ChainedSgdOptions(lr) {}  // NOLINT: LibTorch converts from a number
};

using CayleySGDParamState = MomentumParamState;

/// Cayley SGD with momentum (Algorithm 1 of the paper) for groups on the Stiefel manifold, and torch's SGD
/// for Euclidean ones.
///
///     stiefel::CayleySGD optimizer(weights, stiefel::CayleySGDOptions(0.2).momentum(0.9));
class CayleySGD : public ManifoldOptimizer {
 public:
  CayleySGD(std::vector<torch::optim::OptimizerParamGroup> groups, CayleySGDOptions defaults);
  CayleySGD(std::vector<at::Tensor> parameters, CayleySGDOptions defaults);

 protected:
  std::string name() const override { return "CayleySGD"; }
  std::unique_ptr<ParamState> new_state() const override;
  at::Tensor momentum_of(const GroupOptions& options, ParamState& state, const at::Tensor& point) override;
  void step_manifold(const GroupOptions& options, const StepBatch& batch, const at::Tensor& rate,
                     const Counters& counters) override;
  void step_euclidean(const GroupOptions& options, const StepBatch& batch, detail::GroupRate& rate) override;
};

}  // namespace stiefel
