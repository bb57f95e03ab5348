#include "device.h"

// For a LibTorch without CUDA.

namespace stiefel::detail {

bool is_capturing(const c10::Device&) { return false; }

bool has_kernels_for(const at::Tensor&, const CayleyOptions&, const MuonTerms*) { return false; }

bool step_by_kernels(const StepMatrices&, const StepCounters&, const at::Tensor&, const UpdateRule&,
                     const CayleyOptions&) {
  return false;
}

}  // namespace stiefel::detail
