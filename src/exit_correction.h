#pragma once

#include <ATen/ATen.h>
#include <stiefel/cayley.h>

namespace stiefel::detail {

/// P = (I + V)^(−½) − I for a small Hermitian V, by its power series to order 2·pairs: Y(I + P) is the polar
/// factor of a Y with YᴴY = I + V. Costs `pairs` products.
at::Tensor inverse_root_minus_identity(const at::Tensor& v, int64_t pairs);

/// The same for a V of any size with I + V > 0, by Newton–Schulz: 48 products.
at::Tensor wide_inverse_root_minus_identity(const at::Tensor& v);

/// The most pairs of terms of the series that a step takes.
constexpr int64_t kMostPairs = 12;

/// P of a step with these options, of which a bound on ‖V‖ asks for so many pairs: by the series, or where
/// that does not converge by Newton–Schulz.
at::Tensor exit_correction(const at::Tensor& v, int64_t pairs, const CayleyOptions& options);

/// The pairs of a step that may not look at a bound. For `tame` ones, real under the Frobenius norm, ‖V‖ is
/// at most 1/16 at q = ½; for others 3/16.
int64_t unseen_pairs(const CayleyOptions& options, bool tame);

}  // namespace stiefel::detail
