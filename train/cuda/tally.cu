#include "tally.h"

namespace stiefel::train::cuda {

namespace {

constexpr int kThreads = 128;

/// A thread per row: there are few, and this takes less time than the launch.
__global__ void count_wrong(const float* scores, const int64_t* targets, const float* loss, int64_t count,
                            int64_t classes, double* loss_sum, int64_t* wrong) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  bool missed = false;
  if (row < count) {
    const float* row_scores = scores + row * classes;
    float best = row_scores[0];
    int64_t predicted = 0;
    for (int64_t i = 1; i < classes; ++i) {
      const float value = row_scores[i];
      if (value > best || (value != value && best == best)) {
        best = value;
        predicted = i;
      }
    }
    missed = predicted != targets[row];
  }
  const int in_block = __syncthreads_count(missed);
  if (threadIdx.x != 0) return;
  if (in_block > 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(wrong), static_cast<unsigned long long>(in_block));
  }
  if (blockIdx.x == 0) *loss_sum += static_cast<double>(*loss);
}

}  // namespace

void tally(const float* scores, const int64_t* targets, const float* loss, int64_t count, int64_t classes,
           double* loss_sum, int64_t* wrong, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  count_wrong<<<blocks, kThreads, 0, stream>>>(scores, targets, loss, count, classes, loss_sum, wrong);
}

}  // namespace stiefel::train::cuda
