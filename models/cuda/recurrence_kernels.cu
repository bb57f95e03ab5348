#include "recurrence_kernels.h"

#include "recurrence_paths.h"

namespace stiefel::models::cuda {

bool recurrence_fits(int n, bool) { return row::fits(n) || cluster::fits(n); }

cudaError_t recurrence_forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream) {
  return row::fits(shape.n) ? row::forward(shape, pass, stream) : cluster::forward(shape, pass, stream);
}

cudaError_t recurrence_backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream) {
  return row::fits(shape.n) ? row::backward(shape, pass, stream) : cluster::backward(shape, pass, stream);
}

}  // namespace stiefel::models::cuda
