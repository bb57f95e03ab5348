#pragma once

#include <ATen/ATen.h>
#include <stiefel/optim/sgd_options.h>

/// Steps of torch::optim::SGD and Adam on one Euclidean parameter.
///
/// Each is written twice. On the CPU it takes its numbers from the host and is torch's own step to the bit.
/// Elsewhere rates and step counts are tensors on the device, so that nothing waits for the host and a step
/// that was captured into a CUDA graph follows the schedule.
namespace stiefel::detail {

/// p ← p − l·d with d the gradient, decayed, and momentum by torch's rules. `buffer` is made at the first
/// step.
void euclidean_sgd_(const at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& buffer,
                    const SgdTerms& terms, double weight_decay, double rate);
void euclidean_sgd_(const at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& buffer,
                    const SgdTerms& terms, double weight_decay, const at::Tensor& rate);

struct AdamTerms {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  ///< AdamW: the decay is apart from the gradient
};

/// m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², k ← k + 1, p ← p − l·(m/(1−β₁ᵏ))/(√(v/(1−β₂ᵏ)) + ε). All tensors
/// are real and `steps` (k) is one double on the parameter's device.
void euclidean_adam_(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& average,
                     const at::Tensor& squares, const at::Tensor& steps, const AdamTerms& terms, double rate);
void euclidean_adam_(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& average,
                     const at::Tensor& squares, const at::Tensor& steps, const AdamTerms& terms,
                     const at::Tensor& rate);

}  // namespace stiefel::detail
