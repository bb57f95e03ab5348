#pragma once

#include <ATen/ATen.h>

namespace stiefel::bench {

/// Cayley SGD as the paper writes it, with the n×n matrix W and s = 2 rounds, in plain ATen and arranged as
/// well as we know how: W built once, then three products with it, 8n²p + 4np² operations. It drifts off the
/// manifold.
///
/// Takes a stack of row matrices x (B, p, n) with p ≤ n, real, and changes it in place; X = xᵀ in the
/// comments. `g` is the gradient, and X moves against it.
void dense_step_(at::Tensor& x, at::Tensor& m, const at::Tensor& g, double rate, double momentum);

}  // namespace stiefel::bench
