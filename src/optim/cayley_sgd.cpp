#include <stiefel/optim/cayley_sgd.h>

#include <cmath>

namespace stiefel {

void CayleySGDOptions::validate() const {
  GroupOptions::validate();
  TORCH_CHECK(momentum_ >= 0 && momentum_ < 1, "stiefel: momentum must lie in [0, 1); got ", momentum_);
  TORCH_CHECK(std::isfinite(dampening_), "stiefel: dampening must be finite; got ", dampening_);
  TORCH_CHECK(!nesterov_ || (momentum_ > 0 && dampening_ == 0),
              "stiefel: nesterov needs a momentum above 0 and no dampening; got momentum ", momentum_,
              " and dampening ", dampening_);
  const bool on_manifold = manifold() == Manifold::kStiefel;
  TORCH_CHECK(!on_manifold || dampening_ == 0, "stiefel: dampening is ", dampening_,
              " on a group of orthonormal matrices; Cayley SGD has none, set it on Euclidean groups only");
  TORCH_CHECK(!on_manifold || !nesterov_,
              "stiefel: nesterov is set on a group of orthonormal matrices; Cayley SGD has none, set it on "
              "Euclidean groups only");
}

void CayleySGDOptions::drop_euclidean() {
  GroupOptions::drop_euclidean();
  dampening_ = 0;
  nesterov_ = false;
}

void CayleySGDOptions::visit(const Visitor& visitor) {
  GroupOptions::visit(visitor);
  visitor.number("momentum", momentum_);
  visitor.number("dampening", dampening_);
  visitor.flag("nesterov", nesterov_);
}

std::unique_ptr<torch::optim::OptimizerParamState> CayleySGDParamState::clone() const {
  return std::make_unique<CayleySGDParamState>(*this);
}

std::vector<ParamState::Entry> CayleySGDParamState::entries() {
  auto all = ParamState::entries();
  all.push_back({"momentum_buffer", &momentum_buffer, false});
  return all;
}

CayleySGD::CayleySGD(std::vector<torch::optim::OptimizerParamGroup> groups, CayleySGDOptions defaults)
    : CayleyOptimizer(std::move(groups), std::make_unique<CayleySGDOptions>(defaults)) {
  prepare();
}

CayleySGD::CayleySGD(std::vector<at::Tensor> parameters, CayleySGDOptions defaults)
    : CayleySGD(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}},
                std::move(defaults)) {}

std::unique_ptr<ParamState> CayleySGD::new_state() const { return std::make_unique<CayleySGDParamState>(); }

at::Tensor& CayleySGD::momentum_of(ParamState& state, const at::Tensor& point, at::IntArrayRef) {
  auto& buffer = static_cast<CayleySGDParamState&>(state).momentum_buffer;
  if (!buffer.defined()) buffer = at::zeros_like(point);
  return buffer;
}

void CayleySGD::step_bucket(const GroupOptions& options, const Bucket& bucket, const at::Tensor& rate,
                            const at::Tensor& skipped) {
  cayley_sgd_(bucket.points, bucket.momenta, bucket.gradients, skipped, rate,
              static_cast<const CayleySGDOptions&>(options).momentum(), options.cayley());
}

void CayleySGD::step_euclidean(const GroupOptions& group, at::Tensor& parameter, const at::Tensor& gradient,
                               ParamState& state) {
  const auto& options = static_cast<const CayleySGDOptions&>(group);
  auto direction = gradient;
  if (options.weight_decay() != 0) direction = direction.add(parameter, options.weight_decay());
  if (options.momentum() != 0) {
    auto& buffer = static_cast<CayleySGDParamState&>(state).momentum_buffer;
    if (!buffer.defined()) {
      buffer = direction.detach().clone();
    } else {
      buffer.mul_(options.momentum()).add_(direction, 1 - options.dampening());
    }
    direction = options.nesterov() ? direction.add(buffer, options.momentum()) : buffer;
  }
  parameter.add_(direction, -options.lr());
}

}  // namespace stiefel
