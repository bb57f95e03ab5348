#include "permutation.h"

#include <ATen/ATen.h>

#include <utility>

namespace stiefel::data {

at::Tensor permutation(int64_t n, Stream stream) {
  auto result = at::arange(n, at::kLong);
  auto* values = result.data_ptr<int64_t>();
  for (int64_t i = n - 1; i > 0; --i) std::swap(values[i], values[stream.below(i + 1)]);  // Fisher and Yates
  return result;
}

}  // namespace stiefel::data
