#include "polar_direction.h"

#include <cmath>
#include <limits>

#include "algebra.h"
#include "gram_root.h"

namespace stiefel::detail {

PolarDirection::PolarDirection(const at::Tensor& momentum_omega, const at::Tensor& t,
                               const at::Tensor& momentum_r, const at::Tensor& negligible,
                               const PolarOptions& options)
    : k(gram_root(t, negligible, options)) {
  const auto ok = at::bmm(momentum_omega, k);
  n = hermitian(ok);
  omega = skew(ok);
  r = at::bmm(k.mH(), at::bmm(momentum_r, k));
}

UnitMomentum::UnitMomentum(const at::Tensor& momentum) : UnitMomentum(momentum, entry_norm(momentum)) {}

UnitMomentum::UnitMomentum(const at::Tensor& momentum, const at::Tensor& largest) : m(momentum) {
  // Between these ‖MᴴM‖_F, a fourth power, neither vanishes nor overflows.
  const bool is_double = c10::toRealValueType(momentum.scalar_type()) == at::kDouble;
  const double least = is_double ? 1e-60 : 1e-6;
  if (momentum.device().is_cpu()) {
    const auto fits = (largest >= least).logical_and_(largest <= 1 / least).logical_or_(largest == 0);
    if (fits.all().item<bool>()) return;
  }
  unit = at::where(largest > 0, largest.reciprocal(), at::ones({}, largest.options()))
             .clamp_max_(is_double ? 1e300 : 1e37);
  m = momentum * spread(unit, momentum);
}

at::Tensor UnitMomentum::in_units(const at::Tensor& matrices) const {
  return unit.defined() ? matrices * spread(unit, matrices) : matrices;
}

at::Tensor UnitMomentum::normal_length(const at::Tensor& sigma) const {
  const auto length = frobenius(in_units(sigma));
  if (!unit.defined()) return length;
  const bool is_double = c10::toRealValueType(sigma.scalar_type()) == at::kDouble;
  const double least = is_double ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  return length + unit * (2 * least * static_cast<double>(sigma.size(1)));
}

at::Tensor negligible_gram(const at::Tensor& normal_length, const at::Tensor& like) {
  return (normal_length * (16 * unit_roundoff(like))).square_();
}

at::Tensor polar_norm_bound(const PolarOptions& options, const at::Tensor& like) {
  const double bound = 0.5 * (1 + std::sqrt(5.0)) * largest_singular_value(options);
  return at::full({like.size(0)}, bound, like.options().dtype(at::kDouble));
}

at::Tensor polar_defect_bound(const at::Tensor& tau, const at::Tensor& norm, int64_t p, int64_t iterations) {
  const double root_p = std::sqrt(static_cast<double>(p));
  const auto turn = (tau * norm).abs_();
  if (iterations == 1 || iterations == 2) return turn.pow(4).mul_(0.25 * root_p);
  return (turn * 0.5).pow_(2 * ((iterations + 1) / 2) + 2).mul_(4 * root_p);
}

}  // namespace stiefel::detail
