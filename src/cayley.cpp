#include <stiefel/cayley.h>
#include <stiefel/manifold.h>

#include "algebra.h"
#include "generator_norm.h"
#include "step.h"

namespace stiefel {

std::string to_string(Norm norm) {
  switch (norm) {
    case Norm::kFrobenius:
      return "frobenius";
    case Norm::kOne:
      return "one";
    case Norm::kSpectral:
      return "spectral";
  }
  TORCH_CHECK(false, "stiefel: no such norm: ", static_cast<int>(norm));
}

Norm norm_from_string(const std::string& name) {
  if (name == "frobenius") return Norm::kFrobenius;
  if (name == "one") return Norm::kOne;
  if (name == "spectral") return Norm::kSpectral;
  TORCH_CHECK(false, "stiefel: no norm is called '", name, "'; choose frobenius, one or spectral");
}

std::string to_string(Precision precision) { return precision == Precision::kFull ? "full" : "mixed"; }

Precision precision_from_string(const std::string& name) {
  if (name == "full") return Precision::kFull;
  if (name == "mixed") return Precision::kMixed;
  TORCH_CHECK(false, "stiefel: no precision is called '", name, "'; choose full or mixed");
}

void CayleyOptions::validate() const {
  TORCH_CHECK(q > 0 && q < 1, "stiefel: q must lie in (0, 1), where the iteration contracts; got ", q);
  TORCH_CHECK(eps >= 0 && std::isfinite(eps), "stiefel: eps must be finite and not negative; got ", eps);
  TORCH_CHECK(iterations >= 0 && iterations <= 1000, "stiefel: iterations must lie in [0, 1000]; got ",
              iterations);
}

at::Tensor cayley_retraction(const at::Tensor& point, const at::Tensor& direction,
                             const CayleyOptions& options, bool batched) {
  options.validate();
  TORCH_CHECK(point.sizes() == direction.sizes(), "stiefel: the direction's shape ", direction.sizes(),
              " differs from the point's ", point.sizes());
  const at::NoGradGuard no_grad;
  const MatrixView view(point, batched);
  // The step moves along −M, at the rate 1.
  detail::Batch batch{view(point).clone(), view(direction).neg(), {}, {}};
  const detail::Pace pace{at::ones({}, point.options().dtype(at::kDouble)), {}};
  detail::step_(batch, pace, options);
  auto moved = at::empty_like(point);
  view.write(batch.x, moved);
  return moved;
}

at::Tensor generator_norm(const at::Tensor& point, const at::Tensor& direction, Norm norm, bool batched) {
  TORCH_CHECK(point.sizes() == direction.sizes(), "stiefel: the direction's shape ", direction.sizes(),
              " differs from the point's ", point.sizes());
  const at::NoGradGuard no_grad;
  const MatrixView view(point, batched);
  const auto x = view(point);
  const auto m = view(direction);
  return detail::literal_norm(x, m, detail::drift(x), detail::overlap(x, m), detail::gram(m), norm)
      .view(view.batch_shape());
}

}  // namespace stiefel
