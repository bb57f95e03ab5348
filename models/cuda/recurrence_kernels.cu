#include "recurrence_kernels.h"

#include "recurrence_paths.h"

namespace stiefel::models::cuda {

bool recurrence_fits(int n, bool) { return row_fits(n) || cluster_fits(n); }

cudaError_t recurrence_forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream) {
  return row_fits(shape.n) ? row_forward(shape, pass, stream) : cluster_forward(shape, pass, stream);
}

cudaError_t recurrence_backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream) {
  return row_fits(shape.n) ? row_backward(shape, pass, stream) : cluster_backward(shape, pass, stream);
}

}  // namespace stiefel::models::cuda
