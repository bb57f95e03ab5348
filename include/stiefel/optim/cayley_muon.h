#pragma once

#include <stiefel/cayley_muon.h>
#include <stiefel/export.h>
#include <stiefel/optim/sgd_options.h>

#include <memory>
#include <string>
#include <vector>

namespace stiefel {

/// Options of Cayley Muon: any group's, Muon's terms, and how the Cayley transform is computed. Euclidean
/// groups are torch::optim::SGD with `momentum`, `nesterov` and `dampening`.
class STIEFEL_API CayleyMuonOptions : public GroupOptions {
 public:
  CayleyMuonOptions(double lr = 0.01) : GroupOptions(lr) {}  // NOLINT: LibTorch converts from a number

  STIEFEL_ARG(CayleyMuonOptions, double, lr, lr_)
  STIEFEL_ARG(CayleyMuonOptions, Manifold, manifold, manifold_)
  STIEFEL_ARG(CayleyMuonOptions, bool, batched, batched_)
  STIEFEL_ARG(CayleyMuonOptions, int64_t, shard_dim, shard_dim_)
  STIEFEL_ARG(CayleyMuonOptions, bool, orthonormalize_on_start, orthonormalize_on_start_)
  STIEFEL_ARG(CayleyMuonOptions, double, weight_decay, weight_decay_)
  STIEFEL_ARG(CayleyMuonOptions, double, momentum, muon_.momentum)
  STIEFEL_ARG(CayleyMuonOptions, bool, nesterov, muon_.nesterov)
  STIEFEL_ARG(CayleyMuonOptions, double, dampening, dampening_)
  STIEFEL_ARG(CayleyMuonOptions, int64_t, rounds, muon_.polar.rounds)
  STIEFEL_ARG(CayleyMuonOptions, bool, exact_root, muon_.polar.exact_root)
  STIEFEL_ARG(CayleyMuonOptions, MuonScale, scale, muon_.scale)
  STIEFEL_ARG(CayleyMuonOptions, int64_t, iterations, cayley_.iterations)
  STIEFEL_ARG(CayleyMuonOptions, bool, exact, cayley_.exact)
  STIEFEL_ARG(CayleyMuonOptions, Precision, precision, cayley_.precision)
  const MuonTerms& terms() const { return muon_; }
  const CayleyOptions& cayley() const { return cayley_; }

  void validate() const override;
  void validate_method() const override;
  void drop_euclidean() override;
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  void serialize(torch::serialize::InputArchive& archive) override;

 private:
  template <class Self, class Visitor>
  static void visit(Self& self, const Visitor& visitor) {
    visit_group(self, visitor);
    visitor("momentum", self.muon_.momentum);
    visitor("nesterov", self.muon_.nesterov);
    visitor("dampening", self.dampening_);
    PolarOptions::visit(self.muon_.polar, visitor);
    visitor("scale", self.muon_.scale);
    visitor("iterations", self.cayley_.iterations);
    visitor("exact", self.cayley_.exact);
    visitor("precision", self.cayley_.precision);
  }

  MuonTerms muon_;
  double dampening_ = 0;  // of Euclidean groups
  CayleyOptions cayley_;
};

/// Cayley Muon for groups on the Stiefel manifold, and torch's SGD for Euclidean ones.
///
///     stiefel::CayleyMuon optimizer(weights, stiefel::CayleyMuonOptions(0.01).momentum(0.9));
class STIEFEL_API CayleyMuon : public ManifoldOptimizer {
 public:
  CayleyMuon(std::vector<torch::optim::OptimizerParamGroup> groups, CayleyMuonOptions defaults = {});
  CayleyMuon(std::vector<at::Tensor> parameters, CayleyMuonOptions defaults = {});

 protected:
  std::string name() const override { return "CayleyMuon"; }
  std::unique_ptr<ParamState> new_state() const override;
  at::Tensor momentum_of(const GroupOptions& options, ParamState& state, const at::Tensor& point) override;
  void step_manifold(const GroupOptions& options, const ParameterBatch& batch, const at::Tensor& rate,
                     const Counters& counters) override;
  void step_euclidean(const GroupOptions& options, const ParameterBatch& batch,
                      detail::GroupRate& rate) override;
  bool is_stepped_alone(const GroupOptions& options, const at::Tensor& point) const override;
};

}  // namespace stiefel
