#pragma once

#include <ATen/ATen.h>
#include <stiefel/detail/group_rate.h>
#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/sgd_options.h>

#include <vector>

#include "../test_api.h"

/// The steps of SGD, Adam, AdamW and RMSprop on Euclidean parameters: the only place that has their formulas.
///
/// On the CPU a step takes its numbers from the host and is torch's own to the bit. Elsewhere rates and step
/// counts are tensors on the device, so that nothing waits for the host and a step that was captured into a
/// CUDA graph follows the schedule. Float32 parameters on CUDA are updated all at once by LibTorch's fused
/// kernels, where it has them.
namespace stiefel::detail {

/// Parameters and their gradients, in one order.
struct EuclideanParameters {
  const std::vector<at::Tensor>& values;
  const std::vector<at::Tensor>& gradients;
};

/// One step of all parameters, at the rate on the host or on their devices. `buffers` are made at the first
/// step.
void euclidean_sgd_(const EuclideanParameters& parameters, const std::vector<at::Tensor*>& buffers,
                    const SgdTerms& terms, double weight_decay, GroupRate& rate);

/// The same for Adam. `averages` (m) and `squares` (v) are made of zeros at the first step; `steps` (k) are
/// 0-dim, float32 or double, on the devices of their parameters. A complex parameter is a real one of twice
/// the size, as in torch.
void euclidean_adam_(const EuclideanParameters& parameters, const std::vector<at::Tensor*>& averages,
                     const std::vector<at::Tensor*>& squares, const std::vector<at::Tensor>& steps,
                     const AdamTerms& terms, double eps, double weight_decay, GroupRate& rate);

/// The same for RMSprop without momentum, not centred. `squares` (v) are made of zeros at the first step. The
/// rate is read on the device everywhere: on the CPU torch's own step is the exact one.
STIEFEL_TEST_API void euclidean_rmsprop_(const EuclideanParameters& parameters,
                                         const std::vector<at::Tensor*>& squares, double alpha, double eps,
                                         double weight_decay, GroupRate& rate);

/// The formulas for one parameter. A Number is a double on the host, or a 0-dim tensor on the parameter's
/// device.
template <class Number>
STIEFEL_TEST_API void sgd_formula_(const at::Tensor& parameter, const at::Tensor& gradient,
                                   at::Tensor& buffer, const SgdTerms& terms, double weight_decay,
                                   const Number& rate);
template <class Number>
STIEFEL_TEST_API void adam_formula_(const at::Tensor& parameter, const at::Tensor& gradient,
                                    const at::Tensor& average, const at::Tensor& squares, const Number& k,
                                    const AdamTerms& terms, double eps, double weight_decay,
                                    const Number& rate);

}  // namespace stiefel::detail
