#include "inverse_root.h"

#include <utility>

#include "algebra.h"

namespace stiefel::detail {

InverseRoot inverse_root(const at::Tensor& sigma) {
  auto [values, vectors] = at::linalg_eigh(sigma);
  // P = (DΛ^(−½))Dᴴ.
  auto root = at::bmm(vectors * values.rsqrt().unsqueeze(-2), vectors.mH());
  return {std::move(root), std::move(vectors), std::move(values)};
}

at::Tensor inverse_root_backward(const at::Tensor& vectors, const at::Tensor& values,
                                 const at::Tensor& d_root) {
  const auto h = at::bmm(at::bmm(vectors.mH(), hermitian(d_root)), vectors);
  const auto column = values.sqrt().unsqueeze(-1);  // √λᵢ down the rows
  const auto row = column.mT();                     // √λⱼ along the columns
  const auto f = (column + row).mul_(column).mul_(row).reciprocal_().neg_();
  return at::bmm(at::bmm(vectors, h.mul(f)), vectors.mH());
}

}  // namespace stiefel::detail
