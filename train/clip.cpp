#include "clip.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "device_rates.h"

namespace stiefel::train {

void clip_gradients_(const std::vector<at::Tensor>& parameters, double most) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty()) return;
  std::vector<at::Tensor> norms;
#if STIEFEL_MULTI_TENSOR_STEPS
  if (gradients[0].is_cuda()) norms = at::_foreach_norm(gradients, 2);
#endif
  if (norms.empty()) {
    for (const auto& gradient : gradients) norms.push_back(gradient.norm(2));
  }
  const auto factor = (most / (at::stack(norms).norm(2) + 1e-6)).clamp_max(1);
#if STIEFEL_MULTI_TENSOR_STEPS
  if (gradients[0].is_cuda()) {
    at::_foreach_mul_(gradients, factor);
    return;
  }
#endif
  for (auto& gradient : gradients) gradient.mul_(factor);
}

}  // namespace stiefel::train
