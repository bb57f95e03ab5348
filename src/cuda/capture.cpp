#include "device.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>

namespace stiefel::detail {

bool is_capturing(const c10::Device& device) {
  if (!device.is_cuda()) return false;
  const c10::cuda::CUDAGuard guard(device);
  return at::cuda::currentStreamCaptureStatus() != at::cuda::CaptureStatus::None;
}

}  // namespace stiefel::detail
