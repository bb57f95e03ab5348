#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace stiefel::train::cuda {

/// Adds a batch's loss to `loss_sum`, and to `wrong` how many of `count` rows of scores are not largest at
/// their target; of equal scores the first counts, and a NaN is larger than any number, as for LibTorch's
/// argmax.
void tally(const float* scores, const int64_t* targets, const float* loss, int64_t count, int64_t classes,
           double* loss_sum, int64_t* wrong, cudaStream_t stream);

}  // namespace stiefel::train::cuda
