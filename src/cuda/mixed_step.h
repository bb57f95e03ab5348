#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "mixed_plan.h"

/// The Cayley step on float32 matrices in mixed precision: half-precision products on tensor cores, matrices
/// that stay orthonormal to about 1e-5. Plain CUDA; all matrices of a list, whatever their shapes, in eleven
/// launches and one per 60 matrices' pointers.
///
/// docs/cuda-kernels.md is the map of these files: which kernel writes which buffer, in which layout and
/// unit, and what must hold between the launches.
namespace stiefel::cuda {

/// The parameters of a step. M ← decay·M + gain·G, and X moves along −M (Cayley SGD) or −M/r (Cayley ADAM).
struct Recipe {
  double decay;
  double gain;
  double beta1;  ///< of Cayley ADAM's r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε)
  double beta2;
  double q;
  double eps;
  bool adam;
  const double* rate;     ///< l, on the device
  double farthest;        ///< the largest ‖E‖ from which a matrix is moved
  int64_t* skipped;       ///< counts matrices that are left in place, on the device
  int64_t* off_manifold;  ///< counts those that were too far off the manifold; may be null
};
static_assert(is_plain<Recipe, 88>, "a parameter of kernels");

/// One step. `matrices` is host memory, one per shape of the plan. `table` is the plan's on the device,
/// `workspace` device memory of plan.workspace_bytes(); both are 256-byte aligned, and the workspace holds
/// nothing from one step to the next. Nothing waits for the device, and the launches can be captured.
cudaError_t mixed_step(const MixedPlan& plan, const Matrix* matrices, const Recipe& recipe, const void* table,
                       void* workspace, cudaStream_t stream);

}  // namespace stiefel::cuda
