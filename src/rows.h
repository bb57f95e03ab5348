#pragma once

#include <ATen/ATen.h>

/// A tensor (…, a, b) as a batch (B, p, n) of row matrices with p ≤ n: a view wherever the layout allows.
namespace stiefel::detail {

at::Tensor rows(const at::Tensor& t);

/// The inverse of rows, in the shape of `like`.
at::Tensor unrows(const at::Tensor& batch, const at::Tensor& like);

}  // namespace stiefel::detail
