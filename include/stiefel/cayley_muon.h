#pragma once

#include <ATen/ATen.h>
#include <stiefel/cayley.h>
#include <stiefel/export.h>
#include <stiefel/polar.h>

#include <string>

/// The step of Cayley Muon, as a function of tensors.
///
/// Where Cayley SGD moves along the momentum M, Cayley Muon moves along its polar factor, made tangent:
///
///     D = MK − XN,  K ≈ (MᴴM)^(−½),  N = ½(XᴴMK + (XᴴMK)ᴴ).
///
/// This is steepest descent in the spectral norm on the manifold, as Muon is without the constraint. All
/// singular values of D are near 1, so a step at the rate l turns X by about l radians in every direction
/// that M has, whatever the size of the gradient.
namespace stiefel {

/// What the rate of Cayley Muon is multiplied by for a p×n matrix, p ≤ n.
enum class MuonScale {
  kNone,  ///< 1: the rate is an angle
  kRms,   ///< 0.2√n: the entries of a step have the root mean square 0.2·l, about that of ADAM's steps
};

STIEFEL_API std::string to_string(MuonScale scale);
STIEFEL_API MuonScale muon_scale_from_string(const std::string& name);

/// The terms of Cayley Muon.
struct STIEFEL_API MuonTerms {
  double momentum = 0.9;  ///< β of M ← βM + G
  bool nesterov = false;  ///< the direction is that of βM + G instead of M; 4np² more flop
  PolarOptions polar;     ///< how K is computed
  MuonScale scale = MuonScale::kNone;

  /// Throws c10::Error naming the first value that is out of range.
  void validate() const;
};

/// One step of Cayley Muon on matrices of any shapes, in place: M ← βM + G, projected, and X moves along −D.
/// Lists, rate and counters as in cayley_sgd_. Of `options`, q and `norm` are not read: ‖W‖₂ is bounded by
/// what the polynomial leaves, so α is the rate up to half a radian; `polish` must be true. Where M is zero,
/// or so small beside what the projection took off that it is rounding, X stays.
STIEFEL_API void cayley_muon_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                              const at::Tensor& skipped, const at::Tensor& rate, const MuonTerms& terms = {},
                              const CayleyOptions& options = {}, bool batched = false,
                              const at::Tensor& off_manifold = {}, const Sharding& sharding = {});

}  // namespace stiefel
