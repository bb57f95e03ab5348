#include "gram_root.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algebra.h"
#include "minimax_quintics.h"

namespace stiefel::detail {

namespace {

/// Eigenvalues below this part of the largest are not brought to 1: a Gram matrix has an error of about u‖T‖,
/// and what K makes of it moves X off the manifold.
double least_eigenvalue(const at::Tensor& t) { return 1000 * unit_roundoff(t); }

/// A^(−½) for ‖A‖_F = 1 by its eigenvalues, each raised to the smallest that means something.
at::Tensor root_by_eigenvalues(const at::Tensor& a) {
  auto [values, vectors] = at::linalg_eigh(a);
  const auto floor = values.narrow(-1, values.size(-1) - 1, 1).clamp_min(0).mul(least_eigenvalue(a));
  // No eigenvalue of a matrix that counts is zero here; the root of the zero matrix is discarded.
  const auto scale = at::maximum(values, floor).clamp_min_(std::numeric_limits<float>::min()).rsqrt_();
  return at::bmm(vectors * scale.unsqueeze(-2), vectors.mH());
}

/// The same by quintics. The singular values σ of a matrix with Gram matrix A become σ(a + bσ² + cσ⁴), so
///     P = aI + bA + cA²,  K ← KP,  A ← PAP
/// of matrices that are Hermitian and commute, all being polynomials in A.
at::Tensor root_by_quintics(at::Tensor a, int64_t rounds) {
  const auto& all = minimax_quintics(rounds).rounds;
  // Beyond 1 the quintics are steep, so A must not leave [0, 1].
  const double floor = least_eigenvalue(a);
  add_diagonal_(a, floor).div_(1 + 2 * floor);
  at::Tensor k;
  for (size_t i = 0; i < all.size(); ++i) {
    auto p = commuting_product(a, a).mul_(all[i].c).add_(a, all[i].b);
    add_diagonal_(p, all[i].a);
    k = k.defined() ? commuting_product(k, p) : p;
    if (i + 1 < all.size()) a = commuting_product(commuting_product(a, p), p);
  }
  return k;
}

}  // namespace

at::Tensor gram_root(const at::Tensor& t, const at::Tensor& negligible, const PolarOptions& options) {
  const auto norm = frobenius(t);
  const auto shrink = at::where(norm > negligible, norm.reciprocal(), at::zeros({}, norm.options()));
  const auto a = t * spread(shrink, t);  // eigenvalues in [0, 1]
  auto k = options.exact_root ? root_by_eigenvalues(a) : root_by_quintics(a, options.rounds);
  return k.mul_(spread(shrink.sqrt(), t));
}

double largest_singular_value(const PolarOptions& options) {
  return options.exact_root ? 1 : 1 + minimax_quintics(options.rounds).error;
}

double root_gain(const PolarOptions& options, const at::Tensor& like) {
  const double least = least_eigenvalue(like);
  if (!options.exact_root) return std::min(minimax_quintics(options.rounds).gain, 1.2 / std::sqrt(least));
  // ‖T‖_F ≤ √p‖T‖₂.
  return std::sqrt(std::sqrt(static_cast<double>(like.size(1))) / least);
}

}  // namespace stiefel::detail
