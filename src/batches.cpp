#include "batches.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace stiefel::detail {

namespace {

// Elements of a batch that stays in the second-level cache with its temporaries, by measurement; a matrix of
// this size is worth all threads.
constexpr int64_t kBatchElements = 1 << 16;

}  // namespace

std::vector<at::Tensor> pick(at::TensorList list, const std::vector<size_t>& entries) {
  std::vector<at::Tensor> result;
  if (list.empty()) return result;
  result.reserve(entries.size());
  for (const size_t i : entries) result.push_back(list[i]);
  return result;
}

std::vector<BatchRange> cut_into_batches(const std::vector<size_t>& entries,
                                         const std::function<int64_t(size_t)>& count_of, int64_t matrix_size,
                                         const at::Device& device) {
  int64_t most = 0;
  if (device.is_cpu()) {
    most = std::max<int64_t>(1, kBatchElements / matrix_size);
  } else {
    for (const size_t i : entries) most += count_of(i);
  }
  std::vector<BatchRange> batches;
  bool open = false;  // whether the last batch may take another entry
  for (const size_t i : entries) {
    const int64_t count = count_of(i);
    if (open && batches.back().count + count <= most) {
      batches.back().entries.push_back(i);
      batches.back().count += count;
      continue;
    }
    for (int64_t first = 0; first < count; first += most) {
      batches.push_back({{i}, first, std::min(most, count - first)});
    }
    open = count < most;
  }
  return batches;
}

bool is_small_matrix(int64_t matrix_size, const at::Device& device) {
  return device.is_cpu() && matrix_size < kBatchElements;
}

void for_each_batch_index(size_t count, bool on_threads, const std::function<void(size_t)>& work) {
  const auto run = [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad;  // a thread's own
    for (int64_t i = begin; i < end; ++i) work(static_cast<size_t>(i));
  };
  const auto all = static_cast<int64_t>(count);
  if (on_threads && count > 1) {
    at::parallel_for(0, all, 1, run);
  } else {
    run(0, all);
  }
}

}  // namespace stiefel::detail
