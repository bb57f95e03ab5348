#include "device.h"

#include <stiefel/device_kernels.h>

// For a LibTorch without CUDA.

namespace stiefel {

DeviceKernels kernels_on(const c10::Device& device) {
  return {"none", device.is_cuda() ? "LibTorch's operators: this library was built without CUDA kernels"
                                   : "LibTorch's operators: the kernels are for GPUs"};
}

namespace detail {

bool is_capturing(const c10::Device&) { return false; }

bool has_kernels_for(const at::Tensor&, const CayleyOptions&, const MuonTerms*) { return false; }

bool step_by_kernels(const StepMatrices&, const StepCounters&, const at::Tensor&, const UpdateRule&,
                     const CayleyOptions&) {
  return false;
}

}  // namespace detail

}  // namespace stiefel
