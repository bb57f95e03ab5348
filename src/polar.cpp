#include <stiefel/manifold.h>
#include <stiefel/polar.h>

#include "algebra.h"
#include "gram_root.h"
#include "minimax_quintics.h"
#include "weight_batches.h"

namespace stiefel {

void PolarOptions::validate() const {
  TORCH_CHECK(rounds >= 1 && rounds <= detail::kMostRounds, "stiefel: rounds must lie in [1, ",
              detail::kMostRounds, "]; got ", rounds);
}

at::Tensor polar_direction(const at::Tensor& weight, const PolarOptions& options, bool batched) {
  options.validate();
  const at::NoGradGuard no_grad;
  const MatrixView view(weight, batched);
  auto m = view(weight.detach().to(detail::arithmetic(weight)));
  // To length 1, so that its Gram matrix neither overflows nor vanishes.
  const auto length = detail::frobenius(m);
  const auto scale = at::where(length > 0, length.reciprocal(), at::zeros({}, length.options()));
  m = m * detail::spread(scale, m);
  const auto k = detail::gram_root(detail::gram(m), at::zeros_like(length), options);
  auto direction = at::empty_like(weight);
  view.write(at::bmm(k, m), direction);  // MK in rows is Kᴴm = Km
  return direction;
}

}  // namespace stiefel
