#pragma once

#include <ATen/ATen.h>

/// The inverse square root of Hermitian positive definite matrices, and its derivative. Orthogonal weight
/// normalisation and decorrelated batch normalisation both rest on it.
namespace stiefel::detail {

/// P = Σ^(−½) of a batch (B, p, p), with the eigen-decomposition Σ = DΛDᴴ that its derivative needs.
struct InverseRoot {
  at::Tensor root;     ///< P = DΛ^(−½)Dᴴ
  at::Tensor vectors;  ///< D
  at::Tensor values;   ///< λ (B, p), real, ascending
};

/// Reads the lower triangles. The eigenvalues are the caller's to check: one that is not positive gives
/// values that are not finite.
InverseRoot inverse_root(const at::Tensor& sigma);

/// dΣ from dP, both gradients in LibTorch's sense: with H = ½(dP + dPᴴ),
///
///     dΣ = D[F ∘ (DᴴHD)]Dᴴ,  F_ij = −1/(√λᵢ√λⱼ(√λᵢ + √λⱼ)).
///
/// F holds the divided differences of λ^(−½), (λᵢ^(−½) − λⱼ^(−½))/(λᵢ − λⱼ), with λᵢ − λⱼ cancelled: nothing
/// is singular where eigenvalues repeat. dΣ is Hermitian.
at::Tensor inverse_root_backward(const at::Tensor& vectors, const at::Tensor& values,
                                 const at::Tensor& d_root);

}  // namespace stiefel::detail
