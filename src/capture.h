#pragma once

#include <c10/core/Device.h>

namespace stiefel::detail {

/// Whether what is launched on a device now is recorded into a CUDA graph instead of being run.
bool is_capturing(const c10::Device& device);

}  // namespace stiefel::detail
