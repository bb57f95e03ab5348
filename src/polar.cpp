#include <ATen/core/grad_mode.h>
#include <stiefel/manifold.h>
#include <stiefel/polar.h>

#include "algebra.h"
#include "gram_root.h"
#include "minimax_quintics.h"
#include "polar_direction.h"
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
  const auto m = detail::UnitMomentum(view(weight.detach().to(detail::arithmetic(weight)))).m;
  const auto zero = at::zeros({m.size(0)}, m.options().dtype(at::kDouble));
  const auto k = detail::gram_root(detail::gram(m), zero, options);
  auto direction = at::empty_like(weight);
  view.write(at::bmm(k, m), direction);  // MK in rows is Kᴴm = Km
  return direction;
}

}  // namespace stiefel
