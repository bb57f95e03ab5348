#pragma once

#include "recurrence_kernels.h"

/// The two kernels of the recurrence, each for its own range of sizes.
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

}  // namespace stiefel::models::cuda
