#include "recurrence_kernels.h"

#include "recurrence_paths.h"

namespace stiefel::models::cuda {

RecurrencePath recurrence_path(int n, bool complex, RecurrencePath wanted) {
  const auto takes = [&](RecurrencePath path) {
    switch (path) {
      case RecurrencePath::kRow:
        return row::fits(n);
      case RecurrencePath::kCluster:
        return cluster::fits(n);
      case RecurrencePath::kStream:
        return stream::fits(n, complex);
      default:
        return false;
    }
  };
  // The fastest first.
  for (const auto path : {RecurrencePath::kRow, RecurrencePath::kCluster, RecurrencePath::kStream})
    if ((wanted == RecurrencePath::kAny || wanted == path) && takes(path)) return path;
  return RecurrencePath::kNone;
}

cudaError_t recurrence_forward(const RecurrenceShape& shape, const ForwardPass& pass, RecurrencePath path,
                               cudaStream_t stream) {
  switch (path) {
    case RecurrencePath::kRow:
      return row::forward(shape, pass, stream);
    case RecurrencePath::kCluster:
      return cluster::forward(shape, pass, stream);
    case RecurrencePath::kStream:
      return stream::forward(shape, pass, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t recurrence_backward(const RecurrenceShape& shape, const BackwardPass& pass, RecurrencePath path,
                                cudaStream_t stream) {
  switch (path) {
    case RecurrencePath::kRow:
      return row::backward(shape, pass, stream);
    case RecurrencePath::kCluster:
      return cluster::backward(shape, pass, stream);
    case RecurrencePath::kStream:
      return stream::backward(shape, pass, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace stiefel::models::cuda
