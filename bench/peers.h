#pragma once

#include <ATen/ATen.h>

/// What the library's step is compared with: the other ways to move an orthonormal matrix, each in plain ATen
/// and arranged as well as we know how.
///
/// All take a stack of row matrices x (B, p, n) with p ≤ n, real, and change it in place; X = xᵀ in the
/// comments. `g` is the gradient, and X moves against it.
namespace stiefel::bench {

/// Cayley SGD as the paper writes it, with the n×n matrix W and s = 2 rounds:
/// W built once, then three products with it, 8n²p + 4np² operations. It drifts off the manifold.
void dense_step_(at::Tensor& x, at::Tensor& m, const at::Tensor& g, double rate, double momentum);

/// The Q factor of X + ξ, R's diagonal made positive; ξ is the projected gradient times −rate.
void qr_step_(at::Tensor& x, const at::Tensor& g, double rate);

/// The polar factor of X + ξ, by a singular value decomposition.
void polar_step_(at::Tensor& x, const at::Tensor& g, double rate);

/// The closed form of the Cayley transform, by a solve with the n×n matrix I − (α/2)W.
void closed_form_step_(at::Tensor& x, const at::Tensor& g, double rate);

}  // namespace stiefel::bench
