#include "dense_generator.h"

#include <ATen/ATen.h>

namespace stiefel::paper {

at::Tensor dense_generator(const at::Tensor& x, const at::Tensor& m) {
  const auto xh = x.mH();
  const auto half = at::mm(m, xh) - 0.5 * at::mm(x, at::mm(xh, at::mm(m, xh)));
  return half - half.mH();
}

double frobenius(const at::Tensor& a) {
  return at::linalg_vector_norm(a.is_complex() ? at::view_as_real(a.resolve_conj()) : a, 2).item<double>();
}

}  // namespace stiefel::paper
