#include <cmath>

#include "algebra.h"
#include "correction_policy.h"
#include "exit_correction.h"
#include "generator_norm.h"
#include "gram_root.h"
#include "polar_direction.h"
#include "step.h"

// The step where X is square: M lies in the span of X, so R = 0, W = XΩXᴴ, and Y = X(I + D) with D a function
// of Ω alone. E steers nothing here; it is only taken off at the end.

namespace stiefel::detail {

namespace {

/// A momentum whose Ω is measured in units, and its step.
struct UnitStep {
  at::Tensor omega;
  StepSize size;
};

UnitStep in_units(const at::Tensor& omega, const StepSize& size) {
  const UnitMomentum unit(omega);
  return {unit.m, unit.unit.defined() ? size.in_units(unit.unit) : size};
}

/// D ← τΩ + (τ/2)ΩD, s times from τΩ, given τΩ and its square.
at::Tensor iterate_square(const at::Tensor& whole, const at::Tensor& squared, int64_t rounds) {
  if (rounds == 0) return whole;
  auto d = at::add(whole, squared, 0.5);
  for (int64_t i = 1; i < rounds; ++i) d = at::baddbmm(whole, whole, d, 1, 0.5);
  return d;
}

/// The fixed point: D = (I − (τ/2)Ω)⁻¹ τΩ.
at::Tensor solve(const at::Tensor& whole) {
  auto system = whole * -0.5;
  add_diagonal_(system, 1);
  return std::get<0>(at::linalg_solve_ex(system, whole));
}

/// ‖V‖_F is at most ¼‖(τΩ)²‖²_F for s = 1, 2.
at::Tensor defect_bound(const at::Tensor& squared, const at::Tensor& tau, const at::Tensor& norm,
                        int64_t rounds) {
  if (rounds == 1 || rounds == 2) return frobenius(squared).square_().mul_(0.25);
  return (tau * norm * 0.5).abs_().pow_(2 * ((rounds + 1) / 2) + 2).mul_(4);
}

/// Ω_D = ΩK of the polar factor of M = XΩ, whose Gram matrix is T = ΩᴴΩ. K is a function of Ω², so ΩK is skew
/// as Ω is.
at::Tensor polar_omega(const at::Tensor& s, const at::Tensor& omega, const PolarOptions& polar) {
  const UnitMomentum unit(omega);
  const auto k = gram_root(gram(unit.m), negligible_gram(unit.normal_length(hermitian(s)), omega), polar);
  return skew(at::bmm(unit.m, k));
}

}  // namespace

void square_step_(StepBatch& batch, const StepSize& momentum_step, const CayleyOptions& options,
                  const PolarOptions* polar) {
  const auto x = batch.source();
  const auto e = batch.e.defined() ? batch.e : drift(x);
  const CorrectionPolicy policy(x, e, momentum_step.reach(x.size(0)));

  const auto s = batch.s.defined() ? batch.s : overlap(x, batch.m);
  const auto momentum_omega = skew(s);
  const auto [omega, step_size] =
      polar != nullptr                     ? UnitStep{polar_omega(s, momentum_omega, *polar), momentum_step}
      : momentum_step.wants_units(options) ? in_units(momentum_omega, momentum_step)
                                           : UnitStep{momentum_omega, momentum_step};
  const auto norm = polar != nullptr ? polar_norm_bound(*polar, x)
                                     : square_norm(x, omega, options.exact ? Norm::kFrobenius : options.norm);
  // ‖W‖_F, where `norm` bounds ‖W‖₂.
  const auto length = polar != nullptr ? norm * std::sqrt(static_cast<double>(x.size(1))) : norm;
  const double exact_turn = polar != nullptr ? kLargestPolarTurn : largest_exact_turn(x);
  const auto tau = step_size.signed_step(norm, exact_turn, options);
  const auto whole = omega * spread(tau, x);  // τΩ: neither τ² nor Ω² need lie in the range

  at::Tensor d;
  if (options.exact) {
    d = solve(whole);
  } else {
    const auto squared = gram(whole).neg_();  // (τΩ)² = −τΩ(τΩ)ᴴ
    d = iterate_square(whole, squared, options.iterations);
    const bool tame = !x.is_complex() && options.norm == Norm::kFrobenius && polar == nullptr;
    const int64_t pairs = policy.series_pairs(
        policy.may_look() ? defect_bound(squared, tau, length, options.iterations) : at::Tensor(),
        unseen_pairs(options, tame));
    if (pairs > 0) {
      const auto v = at::baddbmm(d, d.mH(), d).add_(d.mH());  // V = D + Dᴴ + DᴴD
      const auto p = exit_correction(v, pairs, options);
      d = at::baddbmm(d, d, p).add_(p);  // D ← D + P + DP
    }
  }
  if (policy.drift_shows(tau, length)) d.baddbmm_(e, d.clone(), 1, -0.5);
  d.sub_(e, 0.5);  // D ← D − ½(E + ED)

  // M ← XΩ, X ← X + XD, written as rows: Ωᴴx = −Ωx and Dᴴx.
  if (batch.frozen.defined()) {
    batch.m.copy_(at::where(batch.frozen.view({-1, 1, 1}), batch.m, at::bmm(momentum_omega, x).neg_()));
  } else {
    batch.m.baddbmm_(momentum_omega, x, 0, -1);
  }
  const auto increment = at::bmm(batch.hold_(d).mH(), x);
  batch.x.add_(increment);
}

}  // namespace stiefel::detail
