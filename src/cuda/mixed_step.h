#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "mixed_plan.h"

/// The Cayley step on float32 matrices in mixed precision: half-precision products on tensor cores, matrices
/// that stay orthonormal to about 1e-5. Plain CUDA; all matrices of a list, whatever their shapes, in ten
/// launches (Cayley Muon with two rounds: 19) and one per 60 matrices' pointers.
///
/// docs/cuda-kernels.md is the map of these files: which kernel writes which buffer, in which layout and
/// unit, and what must hold between the launches.
namespace stiefel::cuda {

/// A polynomial aσ + bσ³ + cσ⁵ of singular values.
struct Quintic {
  float a, b, c;
};

/// With a third round K would be 66 times as long in some directions as in others. Rounding to halves then
/// adds to a momentum of rank one other directions five times as long as its own
/// (mixed_step_coefficients_test).
constexpr int kMostRounds = 2;

/// What Cayley Muon's step has besides.
struct PolarRecipe {
  double most_turn;   ///< the largest α: beyond it the truncated transform is too far from orthonormal
  double gain;        ///< the largest ‖K‖ for ‖T‖ = 1
  double negligible;  ///< a momentum shorter than this part of its normal part is rounding and moves nothing
  Quintic quintics[kMostRounds];
  int rounds;     ///< how many of them; 0: this is not Cayley Muon
  int rms_scale;  ///< the rate is multiplied by 0.2√n
};
static_assert(is_plain<Quintic, 12, 4> && is_plain<PolarRecipe, 56>, "parameters of kernels");

/// The parameters of a step. M ← decay·M + gain·G, and X moves along −M (Cayley SGD), −M/r (Cayley ADAM) or
/// −D, the polar factor of M made tangent (Cayley Muon).
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
  PolarRecipe polar;
};
static_assert(is_plain<Recipe, 144>, "a parameter of kernels");

/// One step. `matrices` is host memory, one per shape of the plan. `table` is the plan's on the device,
/// `workspace` device memory of plan.workspace_bytes(); both are 256-byte aligned, and the workspace holds
/// nothing from one step to the next. Nothing waits for the device, and the launches can be captured.
using MixedStep = cudaError_t(const MixedPlan& plan, const Matrix* matrices, const Recipe& recipe,
                              const void* table, void* workspace, cudaStream_t stream);

/// For Hopper alone, and for every card since Ampere (generation.h).
namespace hopper {
MixedStep mixed_step;
}
namespace ampere {
MixedStep mixed_step;
}

}  // namespace stiefel::cuda
