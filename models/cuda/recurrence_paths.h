#pragma once

#include "recurrence_kernels.h"

/// The kernels of the recurrence, each for its own range of sizes and cards.
namespace stiefel::models::cuda {

/// A block per row of the batch, K in one block's registers (row_kernel.cu).
namespace row {
bool fits(int n);
cudaError_t forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream);
cudaError_t backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream);
}  // namespace row

/// A cluster of 8 or 16 blocks, K across their registers (cluster_kernel.cu).
namespace cluster {
bool fits(int n);
cudaError_t forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream);
cudaError_t backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream);
}  // namespace cluster

/// A block per few rows of the batch, K read from global memory in every step (stream_kernel.cu).
namespace stream {
bool fits(int n, bool complex);
cudaError_t forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream);
cudaError_t backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream);
}  // namespace stream

}  // namespace stiefel::models::cuda
