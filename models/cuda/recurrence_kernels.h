#pragma once

#include <cuda_runtime_api.h>

#include "src/cuda/plain.h"

/// The recurrence's two passes as persistent kernels: one launch takes every row of the batch through the
/// whole sequence. Plain pointers to device memory, row-major; a complex number is two floats side by side,
/// and `n` counts complex numbers. All is float32.
///
/// Three kernels share the sizes. Up to n = 128 a block takes one row and has all of K in its registers
/// (row_kernel.cu). Up to n = 512, on Hopper, a cluster of blocks shares K and takes eight rows or more
/// (cluster_kernel.cu). Else, up to n = 1024, a block takes two to eight rows and reads K in every step
/// (stream_kernel.cu).
namespace stiefel::models::cuda {

/// What is run.
struct RecurrenceShape {
  int steps;  ///< T
  int batch;  ///< B
  int n;      ///< hidden units
  bool complex;
  bool tanh;  ///< tanh(z + b) instead of modReLU; real only
};

/// z_t = K h_{t−1} + V x_t, h_t = f(z_t, b).
struct ForwardPass {
  const float* k;   ///< (n, n)
  const float* b;   ///< (n), real
  const float* h0;  ///< (n)
  const float* v;   ///< (n), with one input per step; else null, and z holds V x_t on entry
  const float* x;   ///< (T, B), real, or null likewise
  float* z;         ///< (T, B, n)
  float* states;    ///< (T, B, n) with all_states, else (B, n)
  bool all_states;
};

/// δ_t, the gradient of z_t, back through time. The sums over the batch are left to the caller, row by row,
/// so that they have one order.
struct BackwardPass {
  const float* k;
  const float* b;
  const float* h0;
  const float* x;         ///< (T, B), real, with one input per step; else null
  const float* z;         ///< (T, B, n)
  const float* gradient;  ///< of the states: (T, B, n) with all_states, else (B, n)
  float* delta;           ///< (T, B, n)
  float* before;          ///< (T, B, n): h_{t−1}, so that ∂K = Σ δ_tᵀ h̄_{t−1} is one product
  float* b_rows;          ///< (B, n), real: ∂b of each row
  float* h0_rows;         ///< (B, n): ∂h₀ of each row
  float* v_rows;          ///< (B, n): ∂V of each row, where x is given; else null
  bool all_states;
};

static_assert(is_plain<RecurrenceShape, 16, 4> && is_plain<ForwardPass, 64> && is_plain<BackwardPass, 96>,
              "parameters of kernels");

enum class RecurrencePath { kNone, kAny, kRow, kCluster, kStream };

/// The kernel that takes this size on the current device: `wanted`, or of kAny the fastest; else kNone.
RecurrencePath recurrence_path(int n, bool complex, RecurrencePath wanted);

/// Launch a kernel that recurrence_path() gave, on `stream`; nothing is allocated and nothing waits, so a
/// graph may capture them.
cudaError_t recurrence_forward(const RecurrenceShape& shape, const ForwardPass& pass, RecurrencePath path,
                               cudaStream_t stream);
cudaError_t recurrence_backward(const RecurrenceShape& shape, const BackwardPass& pass, RecurrencePath path,
                                cudaStream_t stream);

}  // namespace stiefel::models::cuda
