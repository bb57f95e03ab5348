#pragma once

#include <ATen/ATen.h>
#include <stiefel/polar.h>

/// The direction of Cayley Muon: the polar factor of the momentum, made tangent.
///
///     D = MK − XN,  K ≈ T^(−½),  N = ½(ΩK + (ΩK)ᴴ)
///
/// of the tangent momentum M with Ω = XᴴM and T = MᴴM. Its own Ω and R are those that the step needs:
///
///     Ω_D = XᴴD = ΩK − N,  R_D = KᴴRK,  R = T + Ω².
namespace stiefel::detail {

struct PolarDirection {
  at::Tensor omega;  ///< Ω_D
  at::Tensor r;      ///< R_D
  at::Tensor k;
  at::Tensor n;

  /// `negligible` as in gram_root: where ‖T‖_F is not above it, D is zero.
  PolarDirection(const at::Tensor& omega, const at::Tensor& t, const at::Tensor& r,
                 const at::Tensor& negligible, const PolarOptions& options);
};

/// A momentum in units in which MᴴM neither overflows nor vanishes.
struct UnitMomentum {
  at::Tensor m;
  at::Tensor unit;  ///< what M was multiplied by, one positive double per matrix; undefined stands for 1

  /// On the CPU M is copied only where it has to be. The unit is the largest entry, since its square may
  /// vanish, and the Frobenius norm with it.
  explicit UnitMomentum(const at::Tensor& momentum);
  UnitMomentum(const at::Tensor& momentum, const at::Tensor& largest);

  /// Matrices that are linear in the momentum, for m.
  at::Tensor in_units(const at::Tensor& matrices) const;

  /// The ‖Σ‖_F of a normal part that the projection takes off, in units: what it rounds is u times that. A
  /// momentum of denormal numbers is rounded to the smallest of them, 2u times the smallest normal one.
  at::Tensor normal_length(const at::Tensor& sigma) const;
};

/// The ‖T‖_F of a momentum that is rounding: of what is left when a normal part of the given length is
/// projected away.
at::Tensor negligible_gram(const at::Tensor& normal_length, const at::Tensor& like);

/// A bound on ‖W‖₂ of D, one double per matrix. In a basis of [X Q], D = XΩ_D + QB and
/// W = [[Ω_D, −Bᴴ], [B, 0]], so ‖W‖₂ ≤ ½(‖Ω_D‖ + √(‖Ω_D‖² + 4‖B‖²)), where ‖Ω_D‖ ≤ ‖ΩK‖ ≤ σ and
/// ‖B‖² = ‖R_D‖ ≤ σ² with σ the largest singular value of MK: ‖W‖₂ ≤ ½(1 + √5)σ.
at::Tensor polar_norm_bound(const PolarOptions& options, const at::Tensor& like);

/// The largest α‖W‖₂ of the closed form along D. K multiplies the rounding of T, so that up to 1e-3·α² of it
/// is in XᴴX, whatever the type.
constexpr double kLargestPolarTurn = 1;

/// A bound on ‖V‖_F, the defect of the truncated iteration after s rounds, given that on ‖W‖₂: V is
/// ±(τ⁴/4)XᴴW⁴X to leading order for s = 1, 2.
at::Tensor polar_defect_bound(const at::Tensor& tau, const at::Tensor& norm, int64_t p, int64_t iterations);

}  // namespace stiefel::detail
