#pragma once

#include <stiefel/export.h>
#include <stiefel/optim/sgd_options.h>
#include <stiefel/retractions.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stiefel {

/// Options of RetractionSGD: any group's, SGD's terms, and those of the retraction itself.
template <class Retraction>
class RetractionSGDOptions : public GroupOptions {
 public:
  RetractionSGDOptions(double lr) : GroupOptions(lr) {}  // NOLINT: LibTorch converts from a number

  STIEFEL_ARG(RetractionSGDOptions, double, lr, lr_)
  STIEFEL_ARG(RetractionSGDOptions, Manifold, manifold, manifold_)
  STIEFEL_ARG(RetractionSGDOptions, bool, batched, batched_)
  STIEFEL_ARG(RetractionSGDOptions, bool, orthonormalize_on_start, orthonormalize_on_start_)
  STIEFEL_ARG(RetractionSGDOptions, double, weight_decay, weight_decay_)
  STIEFEL_ARG(RetractionSGDOptions, double, momentum, sgd_.momentum)
  STIEFEL_ARG(RetractionSGDOptions, double, dampening, sgd_.dampening)
  STIEFEL_ARG(RetractionSGDOptions, bool, nesterov, sgd_.nesterov)
  const SgdTerms& terms() const { return sgd_; }
  const Retraction& retraction() const { return retraction_; }
  RetractionSGDOptions& retraction(Retraction value) {
    retraction_ = std::move(value);
    return *this;
  }

  void validate() const override {
    GroupOptions::validate();
    sgd_.validate(manifold_);
  }
  void validate_method() const override {
    if constexpr (detail::CanValidate<Retraction>::value) retraction_.validate();
  }
  double nearest_start() const override {
    return std::max(GroupOptions::nearest_start(), detail::defect_bound(retraction_));
  }
  void drop_euclidean() override {
    GroupOptions::drop_euclidean();
    sgd_.drop_euclidean();
  }
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<RetractionSGDOptions>(*this);
  }

  void serialize(torch::serialize::OutputArchive& archive) const override {
    const detail::OptionWriter writer(archive);
    visit(*this, writer);
    if constexpr (detail::HasOptions<Retraction>::value) {
      auto copy = retraction_;  // a retraction is visited to be written and to be read
      copy.visit({writer, writer, writer});
    }
  }
  void serialize(torch::serialize::InputArchive& archive) override {
    const detail::OptionReader reader(archive);
    visit(*this, reader);
    if constexpr (detail::HasOptions<Retraction>::value) retraction_.visit({reader, reader, reader});
  }

 private:
  template <class Self, class Visitor>
  static void visit(Self& self, const Visitor& visitor) {
    visit_group(self, visitor);
    SgdTerms::visit(self.sgd_, visitor);
  }

  SgdTerms sgd_;
  Retraction retraction_;
};

namespace detail {

/// M ← βM + G where there are momenta, and `move` of each batch. A matrix keeps its point and momentum and is
/// counted in `skipped` where its gradient is not finite, where it is so far off the manifold that ‖X‖² shows
/// it (counted in `off_manifold` too), and where the step does not end on the manifold, as at a rate that is
/// far too large: after a step with l‖D‖_F ≤ 1 ‖X‖² must show it, after a longer one (on an accelerator after
/// any) ‖XᴴX − I‖_F is measured. It may be 5e-4·√p, or `largest_defect` where that is not 0, or what it was.
STIEFEL_API void retraction_sgd_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                                 const at::Tensor& skipped, const at::Tensor& off_manifold,
                                 const at::Tensor& rate, double momentum, bool batched, double largest_defect,
                                 const std::function<void(const Descent&)>& move);

}  // namespace detail

/// Gradient descent on the Stiefel manifold by a retraction, X ← R_X(−lξ), for groups on the manifold, and
/// torch's SGD for Euclidean ones.
///
/// Without momentum ξ is the tangent part of the gradient, as in the methods that the paper compares with.
/// With momentum it is Cayley SGD's: M ← βM + G, projected onto the tangent space at X, kept, and ξ = M.
///
///     stiefel::RetractionSGD<stiefel::Qr> optimizer(weights,
///     stiefel::RetractionSGDOptions<stiefel::Qr>(0.1));
template <class Retraction>
class RetractionSGD : public ManifoldOptimizer {
 public:
  using Options = RetractionSGDOptions<Retraction>;

  RetractionSGD(std::vector<torch::optim::OptimizerParamGroup> groups, Options defaults)
      : ManifoldOptimizer(std::move(groups), std::make_unique<Options>(defaults)) {
    prepare();
  }
  RetractionSGD(std::vector<at::Tensor> parameters, Options defaults)
      : RetractionSGD(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}},
                      std::move(defaults)) {}

 protected:
  std::string name() const override { return std::string("RetractionSGD ") + Retraction::kName; }

  std::unique_ptr<ParamState> new_state() const override { return std::make_unique<MomentumParamState>(); }

  at::Tensor momentum_of(const GroupOptions& group, ParamState& state, const at::Tensor& point) override {
    const bool has_momentum = static_cast<const Options&>(group).momentum() != 0;
    return has_momentum ? static_cast<MomentumParamState&>(state).buffer_like(point) : at::Tensor();
  }

  void step_manifold(const GroupOptions& group, const ParameterBatch& batch, const at::Tensor& rate,
                     const Counters& counters) override {
    const auto& options = static_cast<const Options&>(group);
    detail::retraction_sgd_(batch.points, batch.momenta, batch.gradients, counters.skipped,
                            counters.off_manifold, rate, options.momentum(), options.batched(),
                            detail::largest_defect(options.retraction()),
                            [&](const Descent& step) { descend_(options.retraction(), step); });
  }

  void step_euclidean(const GroupOptions& group, const ParameterBatch& batch,
                      detail::GroupRate& rate) override {
    detail::euclidean_sgd_(group, static_cast<const Options&>(group).terms(), batch, rate);
  }
};

}  // namespace stiefel
