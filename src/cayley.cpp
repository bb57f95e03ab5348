#include <stiefel/cayley.h>

#include "algebra.h"
#include "generator_norm.h"
#include "rows.h"
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
  TORCH_CHECK(q > 0 && q < 1, "stiefel: q must lie between 0 and 1, where the iteration contracts; got ", q);
  TORCH_CHECK(eps >= 0 && std::isfinite(eps), "stiefel: eps must be finite and not negative; got ", eps);
  TORCH_CHECK(iterations >= 0 && iterations <= 1000, "stiefel: iterations must lie between 0 and 1000; got ",
              iterations);
}

at::Tensor cayley_retraction(const at::Tensor& point, const at::Tensor& direction,
                             const CayleyOptions& options) {
  options.validate();
  TORCH_CHECK(point.sizes() == direction.sizes(), "stiefel: the direction's shape ", direction.sizes(),
              " differs from the point's ", point.sizes());
  const at::NoGradGuard no_grad;
  // The step moves along −M, at the rate 1.
  const auto x = detail::rows(point).clone();
  detail::Batch batch{x, detail::rows(direction).neg(), {}};
  const detail::Pace pace{at::ones({}, x.options().dtype(at::kDouble)), {}};
  detail::step_(batch, pace, options);
  return detail::unrows(batch.x, point);
}

at::Tensor generator_norm(const at::Tensor& point, const at::Tensor& direction, Norm norm) {
  const at::NoGradGuard no_grad;
  const auto x = detail::rows(point);
  const auto m = detail::rows(direction);
  return detail::literal_norm(x, m, detail::drift(x), detail::overlap(x, m), detail::gram(m), norm)
      .view(point.sizes().slice(0, point.dim() - 2));
}

}  // namespace stiefel
