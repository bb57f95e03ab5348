#include "algebra.h"

#include <algorithm>
#include <limits>

namespace stiefel::detail {

namespace {

// From here on the halves of a Hermitian product are worth computing apart (measured on two cores).
constexpr int64_t kPanelledRows = 256;
constexpr int64_t kPanelledWork = int64_t{1} << 25;
constexpr int64_t kPanels = 4;

bool worth_panels(const at::Tensor& x) {
  const int64_t p = x.size(1);
  return x.device().is_cpu() && p >= kPanelledRows && p * p * x.size(2) >= kPanelledWork;
}

/// AB where it is Hermitian, p×p. Panel by panel: its rows i from the diagonal on are A_i B[:, i:], and what
/// is below the diagonal is their mirror image.
at::Tensor mirrored_product(const at::Tensor& a, const at::Tensor& b) {
  const int64_t p = a.size(1);
  auto result = at::empty({a.size(0), p, p}, a.options());
  const int64_t width = (p + kPanels - 1) / kPanels;
  for (int64_t i = 0; i < p; i += width) {
    const int64_t rows = std::min(width, p - i);
    const int64_t rest = p - i;
    auto upper = result.narrow(1, i, rows).narrow(2, i, rest);
    at::bmm_out(upper, a.narrow(1, i, rows), b.narrow(2, i, rest));
    if (rest > rows) {
      const auto beyond = upper.narrow(2, rows, rest - rows);
      result.narrow(1, i + rows, rest - rows).narrow(2, i, rows).copy_(beyond.mH());
    }
  }
  return result;
}

// A transposed read of a large matrix misses the cache at every element; tile by tile it does not.
constexpr int64_t kTiledFrom = 512;
constexpr int64_t kTile = 128;

/// ½(A + sign·Aᴴ) of one large matrix.
at::Tensor tiled_part(const at::Tensor& a, double sign) {
  auto result = at::empty_like(a);
  const int64_t p = a.size(1);
  const auto tile = [&](const at::Tensor& t, int64_t i, int64_t j) {
    return t.narrow(1, i, std::min(kTile, p - i)).narrow(2, j, std::min(kTile, p - j));
  };
  for (int64_t i = 0; i < p; i += kTile) {
    for (int64_t j = i; j < p; j += kTile) {
      const auto upper = tile(a, i, j).add(tile(a, j, i).mH(), sign).mul_(0.5);
      tile(result, i, j).copy_(upper);
      if (j > i) tile(result, j, i).copy_(sign > 0 ? upper.mH() : upper.mH().neg());
    }
  }
  return result;
}

at::Tensor part(const at::Tensor& a, double sign) {
  if (a.device().is_cpu() && a.size(0) == 1 && a.size(1) >= kTiledFrom) return tiled_part(a, sign);
  return a.add(a.mH(), sign).mul_(0.5);
}

/// The norm of all entries of each matrix. LibTorch's norm of complex numbers is seventy times slower than
/// that of their parts.
at::Tensor norm_of_entries(const at::Tensor& a, double order) {
  if (!a.is_complex()) return at::linalg_vector_norm(a, order, at::IntArrayRef({-2, -1})).to(at::kDouble);
  const auto parts = at::view_as_real(a.resolve_conj());
  return at::linalg_vector_norm(parts, order, at::IntArrayRef({-3, -2, -1})).to(at::kDouble);
}

}  // namespace

at::Tensor overlap(const at::Tensor& x, const at::Tensor& m) { return at::bmm(x, m.mH()); }

at::Tensor gram(const at::Tensor& x) {
  return worth_panels(x) ? mirrored_product(x, x.mH()) : at::bmm(x, x.mH());
}

at::Tensor commuting_product(const at::Tensor& a, const at::Tensor& b) {
  return worth_panels(a) ? mirrored_product(a, b) : at::bmm(a, b);
}

at::Tensor drift(const at::Tensor& x) {
  auto e = gram(x);
  e.diagonal(0, -2, -1).copy_(row_squares(x) - 1);
  return e;
}

at::Tensor row_squares(const at::Tensor& x) {
  return x.is_complex() ? at::view_as_real(x).square().sum({-2, -1}) : x.square().sum(-1);
}

at::Tensor hermitian(const at::Tensor& a) { return part(a, 1); }

at::Tensor skew(const at::Tensor& a) { return part(a, -1); }

at::Tensor frobenius(const at::Tensor& a) { return norm_of_entries(a, 2); }

at::Tensor entry_norm(const at::Tensor& a) {
  return norm_of_entries(a, std::numeric_limits<double>::infinity());
}

at::Tensor real_trace(const at::Tensor& a, const at::Tensor& b) {
  const auto product = a.is_complex() ? at::real(a.conj() * b) : a * b;
  return product.sum({-2, -1}).to(at::kDouble);
}

at::Tensor real_trace(const at::Tensor& a) {
  const auto diagonal = a.diagonal(0, -2, -1).sum(-1);
  return (a.is_complex() ? at::real(diagonal) : diagonal).to(at::kDouble);
}

at::Tensor& add_diagonal_(at::Tensor& a, const at::Tensor& c) {
  a.diagonal(0, -2, -1).add_(c.dim() == 3 ? c.squeeze(-1) : c);
  return a;
}

at::Tensor& add_diagonal_(at::Tensor& a, double c) {
  a.diagonal(0, -2, -1).add_(c);
  return a;
}

at::Tensor spread(const at::Tensor& scalar, const at::Tensor& like) {
  return scalar.to(c10::toRealValueType(like.scalar_type())).view({-1, 1, 1});
}

double unit_roundoff(const at::Tensor& t) {
  const auto type = c10::toRealValueType(t.scalar_type());
  return type == at::kDouble ? std::numeric_limits<double>::epsilon() / 2
                             : std::numeric_limits<float>::epsilon() / 2;
}

}  // namespace stiefel::detail
