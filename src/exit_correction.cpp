#include "exit_correction.h"

#include <vector>

#include "algebra.h"

namespace stiefel::detail {

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

}  // namespace stiefel::detail
