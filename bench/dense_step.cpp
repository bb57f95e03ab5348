#include "dense_step.h"

#include <algorithm>

namespace stiefel::bench {

namespace {

// W ← W − Wᵀ of one n×n matrix, in place. By blocks that the cache holds: a transposed read of the whole
// matrix takes four times as long.
void make_skew_(const at::Tensor& w) {
  constexpr int64_t kBlock = 128;
  const int64_t n = w.size(0);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t rows = std::min(kBlock, n - i);
    auto diagonal = w.narrow(0, i, rows).narrow(1, i, rows);
    diagonal.copy_(diagonal - diagonal.t());
    for (int64_t j = i + rows; j < n; j += kBlock) {
      const int64_t columns = std::min(kBlock, n - j);
      auto upper = w.narrow(0, i, rows).narrow(1, j, columns);
      auto lower = w.narrow(0, j, columns).narrow(1, i, rows);
      upper.sub_(lower.t());
      at::neg_out(lower, upper.t());
    }
  }
}

/// W = Ŵ − Ŵᵀ, Ŵ = (M − ½X(XᵀM))Xᵀ: 2n²p + 4np² operations.
at::Tensor generator(const at::Tensor& x, const at::Tensor& m) {
  const auto s = at::bmm(x, m.mT());                     // XᵀM
  const auto left = at::baddbmm(m, s.mT(), x, 1, -0.5);  // (M − ½X(XᵀM))ᵀ
  auto w = at::bmm(left.mT(), x);
  if (w.size(0) > 1) return w - w.mT();  // a stack of small ones
  make_skew_(w[0]);
  return w;
}

}  // namespace

void dense_step_(at::Tensor& x, at::Tensor& m, const at::Tensor& g, double rate, double momentum) {
  constexpr double kQ = 0.5;
  constexpr double kEps = 1e-8;
  at::add_out(m, g, m, momentum);
  auto w = generator(x, m);
  const auto norm = at::linalg_vector_norm(w, 2, at::IntArrayRef({-2, -1}), true);
  const auto alpha = (2 * kQ / (norm + kEps)).clamp_max_(rate);
  // M has the gradient's sign, so Y = X − (α/2)W(X + Y). In rows (WX)ᵀ = −xW, and with D = Y − X:
  // D ← U + hDW with h = α/2 and U = 2hXW; D starts as U.
  double h = 1;
  if (w.size(0) == 1) {
    h = 0.5 * alpha.item<double>();  // goes into the products
  } else {
    w.mul_(0.5 * alpha);
  }
  auto u = at::empty_like(x);
  at::baddbmm_out(u, u, x, w, 0, 2 * h);
  const auto d = at::baddbmm(u, u, w, 1, h);
  x.add_(u).baddbmm_(d, w, 1, h);
  at::div_out(m, u.neg_(), alpha);  // M ← WX
}

}  // namespace stiefel::bench
