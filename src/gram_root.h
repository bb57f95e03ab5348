#pragma once

#include <ATen/ATen.h>
#include <stiefel/polar.h>

namespace stiefel::detail {

/// K ≈ T^(−½) of Gram matrices T = MᴴM, (B, p, p): the singular values of MK are near 1 where those of M are
/// not small. K is Hermitian, a function of T, and bounded, so what is small in M stays small in MK instead
/// of becoming noise. It is zero where ‖T‖_F does not exceed `negligible` (one double per matrix).
at::Tensor gram_root(const at::Tensor& t, const at::Tensor& negligible, const PolarOptions& options);

/// The largest singular value that MK can have.
double largest_singular_value(const PolarOptions& options);

/// The bound: ‖K‖₂·√‖T‖_F is at most this, in the arithmetic of `like`.
double root_gain(const PolarOptions& options, const at::Tensor& like);

}  // namespace stiefel::detail
