#pragma once

#include <ATen/ATen.h>

namespace stiefel::detail {

/// P = (I + V)^(−½) − I for a small Hermitian V, by its power series to order 2·pairs: Y(I + P) is the polar
/// factor of a Y with YᴴY = I + V. Costs `pairs` products.
at::Tensor inverse_root_minus_identity(const at::Tensor& v, int64_t pairs);

}  // namespace stiefel::detail
