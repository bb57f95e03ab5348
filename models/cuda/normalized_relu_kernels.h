#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "src/cuda/plain.h"

/// Batch normalisation and the ReLU after it, of images in channels-last order: `rows` pixels of `channels`
/// numbers each. Two kernels forward and two back, each of which reads every operand once; LibTorch's
/// operators for the same are four and five. Plain pointers to device memory; images are float or bfloat16,
/// all else is float.
namespace stiefel::models::cuda::relu {

struct ReluShape {
  int rows;
  int channels;  ///< a multiple of 8
  int width;     ///< of an image
  bool pooled;   ///< the maximum of each 2×2 square follows; images have even sides then
  bool bf16;

  /// Of the output.
  constexpr int out_rows() const { return pooled ? rows / 4 : rows; }
};

/// y = relu(z), z = (x − μ) γ/σ + β, with μ and σ² = var + ε over the rows.
struct ReluForward {
  const void* x;
  const void* addend;  ///< or null; else x + addend stands for x, and `sum` takes it
  void* sum;
  const float* weight;  ///< γ
  const float* bias;    ///< β
  float momentum;       ///< of the running statistics
  float epsilon;
  float* running_mean;
  float* running_variance;
  int64_t* batches;   ///< counts the calls
  float* statistics;  ///< (3, channels): μ, 1/σ, γ/σ
  void* out;
  float* partial;      ///< partial_floats(shape)
  unsigned* counters;  ///< kCounters, zero before and after; one launch at a time may use them
};

/// ∂x = γ/σ (g − mean g − x̂ mean gx̂), where g is the gradient of z and x̂ = (x − μ)/σ.
struct ReluBackward {
  const void* x;
  const float* bias;
  const float* statistics;
  const void* gradient;      ///< of y
  const void* sum_gradient;  ///< of x + addend by its other uses, added to ∂x; or null
  void* x_gradient;
  float* weight_gradient;
  float* bias_gradient;
  float* coefficients;  ///< (2, channels), for the second kernel
  float* partial;
  unsigned* counters;
};

static_assert(is_plain<ReluShape, 16, 4> && is_plain<ReluForward, 104> && is_plain<ReluBackward, 88>,
              "parameters of kernels");

constexpr int kCounters = 256;

/// Whether there are kernels for so many channels.
bool normalized_relu_fits(int channels);

size_t partial_floats(const ReluShape& shape);

/// Launch on `stream`; nothing is allocated and nothing waits, so a graph may capture them.
cudaError_t normalized_relu_forward(const ReluShape& shape, const ReluForward& pass, cudaStream_t stream);
cudaError_t normalized_relu_backward(const ReluShape& shape, const ReluBackward& pass, cudaStream_t stream);

}  // namespace stiefel::models::cuda::relu
