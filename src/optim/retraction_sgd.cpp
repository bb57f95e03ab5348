#include <stiefel/optim/retraction_sgd.h>

#include "algebra.h"
#include "batches.h"
#include "gradients.h"

namespace stiefel::detail {

void retraction_sgd_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                     const at::Tensor& skipped, const at::Tensor& rate, double momentum,
                     const std::function<void(const Descent&)>& move) {
  const at::NoGradGuard no_grad;
  Batches(points, momenta, gradients).for_each([&](Batches::Slice& slice) {
    const Gradients gradient(slice.g, skipped);
    const bool keep = slice.m.defined();
    if (keep) gradient.accumulate_(slice.m, slice.g, momentum, 1);  // M ← βM + G
    const Descent step{slice.x, keep ? slice.m : gradient.clean(slice.g), keep,
                       spread(rate.expand({slice.x.size(0)}), slice.x)};
    if (!gradient.kept.defined()) return move(step);
    const auto old_x = slice.x.clone();
    const auto old_m = keep ? slice.m.clone() : at::Tensor();
    move(step);
    const auto kept = gradient.kept.view({-1, 1, 1});
    slice.x.copy_(at::where(kept, old_x, slice.x));
    if (keep) slice.m.copy_(at::where(kept, old_m, slice.m));
  });
}

}  // namespace stiefel::detail
