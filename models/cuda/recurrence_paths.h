#pragma once

#include "recurrence_kernels.h"

/// The two ways through a recurrence, each for its own range of sizes.
namespace stiefel::models::cuda {

/// A block a row, K in one block's registers.
bool row_fits(int n);
cudaError_t row_forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream);
cudaError_t row_backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream);

/// A cluster of 8 or 16 blocks, K across their registers.
bool cluster_fits(int n);
cudaError_t cluster_forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream);
cudaError_t cluster_backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream);

}  // namespace stiefel::models::cuda
