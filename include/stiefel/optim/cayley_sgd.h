#pragma once

#include <stiefel/cayley.h>
#include <stiefel/export.h>
#include <stiefel/optim/sgd_options.h>

#include <memory>
#include <string>
#include <vector>

namespace stiefel {

/// Options of Cayley SGD: any group's, how the Cayley transform is computed, and SGD's terms.
class STIEFEL_API CayleySGDOptions : public GroupOptions {
 public:
  CayleySGDOptions(double lr) : GroupOptions(lr) {}  // NOLINT: LibTorch converts from a number

  STIEFEL_ARG(CayleySGDOptions, double, lr, lr_)
  STIEFEL_ARG(CayleySGDOptions, Manifold, manifold, manifold_)
  STIEFEL_ARG(CayleySGDOptions, bool, batched, batched_)
  STIEFEL_ARG(CayleySGDOptions, int64_t, shard_dim, shard_dim_)
  STIEFEL_ARG(CayleySGDOptions, bool, orthonormalize_on_start, orthonormalize_on_start_)
  STIEFEL_ARG(CayleySGDOptions, double, weight_decay, weight_decay_)
  STIEFEL_ARG(CayleySGDOptions, double, eps, cayley_.eps)
  STIEFEL_ARG(CayleySGDOptions, double, q, cayley_.q)
  STIEFEL_ARG(CayleySGDOptions, int64_t, iterations, cayley_.iterations)
  STIEFEL_ARG(CayleySGDOptions, bool, exact, cayley_.exact)
  STIEFEL_ARG(CayleySGDOptions, Norm, norm, cayley_.norm)
  STIEFEL_ARG(CayleySGDOptions, bool, polish, cayley_.polish)
  STIEFEL_ARG(CayleySGDOptions, Precision, precision, cayley_.precision)
  const CayleyOptions& cayley() const { return cayley_; }
  STIEFEL_ARG(CayleySGDOptions, double, momentum, sgd_.momentum)
  STIEFEL_ARG(CayleySGDOptions, double, dampening, sgd_.dampening)
  STIEFEL_ARG(CayleySGDOptions, bool, nesterov, sgd_.nesterov)
  const SgdTerms& terms() const { return sgd_; }

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
    SgdTerms::visit(self.sgd_, visitor);
  }

  CayleyOptions cayley_;
  SgdTerms sgd_;
};

using CayleySGDParamState = MomentumParamState;

/// Cayley SGD with momentum (Algorithm 1 of the paper) for groups on the Stiefel manifold, and torch's SGD
/// for Euclidean ones.
///
///     stiefel::CayleySGD optimizer(weights, stiefel::CayleySGDOptions(0.2).momentum(0.9));
class STIEFEL_API CayleySGD : public ManifoldOptimizer {
 public:
  CayleySGD(std::vector<torch::optim::OptimizerParamGroup> groups, CayleySGDOptions defaults);
  CayleySGD(std::vector<at::Tensor> parameters, CayleySGDOptions defaults);

 protected:
  std::string name() const override { return "CayleySGD"; }
  std::unique_ptr<ParamState> new_state() const override;
  at::Tensor momentum_of(const GroupOptions& options, ParamState& state, const at::Tensor& point) override;
  void step_manifold(const GroupOptions& options, const ParameterBatch& batch, const at::Tensor& rate,
                     const Counters& counters) override;
  void step_euclidean(const GroupOptions& options, const ParameterBatch& batch,
                      detail::GroupRate& rate) override;
  bool is_stepped_alone(const GroupOptions& options, const at::Tensor& point) const override;
};

}  // namespace stiefel
