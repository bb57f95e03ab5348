#include "clip.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

namespace stiefel::train {

void clip_gradients_(const std::vector<at::Tensor>& parameters, double most) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty()) return;
  const auto factor_of = [&](const std::vector<at::Tensor>& norms) {
    return (most / (at::stack(norms).norm(2) + 1e-6)).clamp_max(1);
  };
// One kernel for all gradients; LibTorch multiplies lists by a tensor since 2.3.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  if (gradients[0].is_cuda()) {
    at::_foreach_mul_(gradients, factor_of(at::_foreach_norm(gradients, 2)));
    return;
  }
#endif
  std::vector<at::Tensor> norms;
  for (const auto& gradient : gradients) norms.push_back(gradient.norm(2));
  const auto factor = factor_of(norms);
  for (auto& gradient : gradients) gradient.mul_(factor);
}

}  // namespace stiefel::train
