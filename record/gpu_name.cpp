#include "gpu_name.h"

#include <torch/cuda.h>

#if STIEFEL_HAS_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace stiefel::record {

std::string gpu_name() {
  if (!torch::cuda::is_available()) return {};
  const auto count = torch::cuda::device_count();
#if STIEFEL_HAS_CUDA
  const std::string name = at::cuda::getDeviceProperties(0)->name;
#else
  const std::string name = "CUDA device";  // built without CUDA's headers, which have its name
#endif
  return count > 1 ? std::to_string(count) + " × " + name : name;
}

}  // namespace stiefel::record
