#include "exit_correction.h"

#include <vector>

#include "algebra.h"

namespace stiefel::detail {

namespace {

/// Whether ‖V‖ may come near 1, where the series ends, or go past it: without a round Y is X + αM, and above
/// q = ½ ‖αW‖₂ goes up to 2.
bool reaches_far(const CayleyOptions& options) { return options.iterations == 0 || options.q > 0.5; }

}  // namespace

at::Tensor inverse_root_minus_identity(const at::Tensor& v, int64_t pairs) {
  // (1 + v)^(−½) = Σ c_k v^k with c_0 = 1 and c_k = −c_{k−1}(2k − 1)/(2k): 1, −1/2, 3/8, −5/16, 35/128, …
  std::vector<double> c{1};
  for (int64_t k = 1; k <= 2 * pairs; ++k) c.push_back(-c.back() * (2.0 * k - 1) / (2.0 * k));
  // Horner in V², two terms a product: −½V + V²(c₂I + c₃V + V²(c₄I + c₅V + V²(…))).
  const auto v2 = at::bmm(v, v);
  auto inside = v2 * c[2 * pairs];
  for (int64_t k = 2 * pairs - 2; k > 0; k -= 2) {
    inside.add_(v, c[k + 1]);
    add_diagonal_(inside, c[k]);
    inside = at::bmm(v2, inside);
  }
  return inside.add_(v, c[1]);
}

at::Tensor wide_inverse_root_minus_identity(const at::Tensor& v) {
  // Coupled Newton–Schulz: Y ← YT, Z ← TZ with T = ½(3I − ZY), from Y = A/c and Z = I, makes Z = (A/c)^(−½)
  // where c ≥ ‖A‖₂.
  constexpr int kRounds = 16;  // the smallest eigenvalue of A/c is about 0.3/√p
  auto y = v.clone();
  add_diagonal_(y, 1);
  const auto c = frobenius(y);
  y.mul_(spread(c.reciprocal(), v));
  auto z = at::zeros_like(v);
  add_diagonal_(z, 1);
  for (int i = 0; i < kRounds; ++i) {
    auto t = at::bmm(z, y).mul_(-0.5);
    add_diagonal_(t, 1.5);
    y = at::bmm(y, t);
    z = at::bmm(t, z);
  }
  z.mul_(spread(c.rsqrt(), v));
  add_diagonal_(z, -1);
  return z;
}

at::Tensor exit_correction(const at::Tensor& v, int64_t pairs, const CayleyOptions& options) {
  const bool wide = reaches_far(options) && pairs >= kMostPairs;
  return wide ? wide_inverse_root_minus_identity(v) : inverse_root_minus_identity(v, pairs);
}

int64_t unseen_pairs(const CayleyOptions& options, bool tame) {
  return reaches_far(options) ? kMostPairs : tame ? 2 : 3;
}

}  // namespace stiefel::detail
