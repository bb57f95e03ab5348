#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace stiefel::train {

/// Scales the gradients of these parameters by min(1, most/(‖g‖ + 1e-6)), ‖g‖ the norm of all of them
/// together: what torch's clip_grad_norm_ does, without handing the norm to the host, which would wait for
/// the device.
void clip_gradients_(const std::vector<at::Tensor>& parameters, double most);

}  // namespace stiefel::train
