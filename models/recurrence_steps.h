#pragma once

#include "recurrence.h"

/// The two passes of a recurrence. States are rows: H_t (B, N), so z_t = H_{t−1}Kᵀ + x_tVᵀ.
namespace stiefel::models::detail {

/// What the forward pass leaves.
struct Forward {
  at::Tensor z;       ///< (T, B, N)
  at::Tensor states;  ///< all h_t (T, B, N), or the last (B, N)
};

/// The gradients of the weights, in LibTorch's convention: ∂L/∂Re + i ∂L/∂Im.
struct Backward {
  at::Tensor inputs;  ///< undefined unless asked for
  at::Tensor k;
  at::Tensor v;
  at::Tensor b;
  at::Tensor h0;
};

/// On the CPU: the rows of a batch are independent, so each thread takes some of them through the whole
/// sequence, one product a step, and no thread waits for another.
Forward forward_cpu(const at::Tensor& inputs, const Recurrence& layer, bool all_states);
Backward backward_cpu(const at::Tensor& inputs, const Recurrence& layer, const at::Tensor& z,
                      const at::Tensor& gradient, bool all_states, bool with_inputs);

/// On a CUDA device, in builds that have one: a kernel per pass, for float32 and the sizes that
/// recurrence_choice.h names (models/cuda). The gradients of K and V are products over all times and rows,
/// under LibTorch's TF32 switch.
bool cuda_takes(const Recurrence& layer);
Forward forward_cuda(const at::Tensor& inputs, const Recurrence& layer, bool all_states);
Backward backward_cuda(const at::Tensor& inputs, const Recurrence& layer, const at::Tensor& z,
                       const at::Tensor& gradient, bool all_states, bool with_inputs);

/// On any device, a handful of operators a step.
Forward forward_any(const at::Tensor& inputs, const Recurrence& layer, bool all_states);
Backward backward_any(const at::Tensor& inputs, const Recurrence& layer, const at::Tensor& z,
                      const at::Tensor& gradient, bool all_states, bool with_inputs);

}  // namespace stiefel::models::detail
