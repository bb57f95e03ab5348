#include "peers.h"

#include <algorithm>
#include <tuple>

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

/// G less its normal part: G − X½(XᵀG + GᵀX).
at::Tensor project(const at::Tensor& x, const at::Tensor& g) {
  const auto s = at::bmm(x, g.mT());
  return at::baddbmm(g, s + s.mT(), x, 1, -0.5);
}

/// U, σ, Vᵀ. Singular values as close together as those of X + ξ stop LAPACK's divide and conquer from
/// converging in float, one time in thirty at 256×256; then again in double.
std::tuple<at::Tensor, at::Tensor, at::Tensor> decompose(const at::Tensor& a) {
  try {
    return at::linalg_svd(a, /*full_matrices=*/false);
  } catch (const c10::Error&) {
    const auto type = a.scalar_type();
    const auto [u, values, v] = at::linalg_svd(a.to(at::kDouble), /*full_matrices=*/false);
    return {u.to(type), values.to(type), v.to(type)};
  }
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

void qr_step_(at::Tensor& x, const at::Tensor& g, double rate) {
  const auto y = x.sub(project(x, g), rate);
  const auto [q, r] = at::linalg_qr(y.mT(), "reduced");  // y's rows are columns as LAPACK wants them
  const auto sign = r.diagonal(0, -2, -1).ge(0).to(x.scalar_type()).mul_(2).sub_(1);
  at::mul_out(x, q.mT(), sign.unsqueeze(-1));
}

void polar_step_(at::Tensor& x, const at::Tensor& g, double rate) {
  const auto y = x.sub(project(x, g), rate);
  const auto [u, values, v] = decompose(y.mT());
  at::bmm_out(x, v.mT(), u.mT());  // (UVᵀ)ᵀ
}

void closed_form_step_(at::Tensor& x, const at::Tensor& g, double rate) {
  auto system = generator(x, g);
  const auto right =
      at::baddbmm(x, x, system, 1, 0.5 * rate);  // ((I − (α/2)W)X)ᵀ, as W carries the gradient's sign
  // (I + (α/2)W)Y = that. The transpose I − (α/2)W in row order is the matrix in LAPACK's column order.
  system.mul_(-0.5 * rate).diagonal(0, -2, -1).add_(1);
  const auto y = std::get<0>(at::linalg_solve_ex(system.mT(), right.mT()));
  x.copy_(y.mT());
}

}  // namespace stiefel::bench
