#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "mixed_step.h"

/// The Cayley step on small float32 matrices, p ≤ 128: a thread block per matrix reads x, m and g once, keeps
/// the matrix on chip for the whole step, and writes x and m once. Plain CUDA; a launch per kind of shape.
/// docs/cuda-kernels.md describes it.
namespace stiefel::cuda {

/// A weight of one or more matrices of one shape. Element (i, j) of matrix b, i < p ≤ n, of x lies at
/// x[b·x_stack + i·x_row + j·x_column], likewise m and g.
struct SmallStack {
  float* x;
  float* m;
  const float* g;
  double* v;  ///< Cayley ADAM's second moments and step counts, one per matrix; null for Cayley SGD
  double* k;
  int64_t x_stack, m_stack, g_stack;
  int x_row, x_column, m_row, m_column, g_row, g_column;
  int p, n;
  int count;
  int first;  ///< small_step's: the thread block of its first matrix
};
static_assert(is_plain<SmallStack, 104>, "copied to the device");

/// What of a device decides which shapes have a kernel.
struct SmallCard {
  int capability;    ///< 10·major + minor
  int shared_bytes;  ///< the most that a thread block may have
};

bool has_small_kernel(Shape shape, const SmallCard& card);

/// How much device memory a step on `stacks` stacks needs for their pointers, 8-byte aligned.
size_t small_step_bytes(int stacks);

/// One step; every stack's shape has a kernel. `stacks` is host memory, which is written. Nothing waits for
/// the device, and the launches can be captured.
cudaError_t small_step(SmallStack* stacks, int count, const Recipe& recipe, const SmallCard& card,
                       void* memory, cudaStream_t stream);

}  // namespace stiefel::cuda
