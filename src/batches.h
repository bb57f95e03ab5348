#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <vector>

/// How matrices of any shapes are computed together: those of one shape are stacked into batches. On an
/// accelerator a shape is one batch. On the CPU small matrices are stacked into batches that stay in cache,
/// batches go to different threads, and a large matrix is a batch where it lies, computed by all threads.
namespace stiefel::detail {

/// Groups 0 … count − 1 by a key: equal keys together, in the order in which they first occur.
template <class KeyOf>
std::vector<std::vector<size_t>> group_by(size_t count, KeyOf key_of) {
  std::vector<std::vector<size_t>> groups;
  std::map<decltype(key_of(size_t{})), size_t> known;
  for (size_t i = 0; i < count; ++i) {
    const auto [found, is_new] = known.emplace(key_of(i), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  return groups;
}

/// The chosen entries of a list; an empty list stays empty.
std::vector<at::Tensor> pick(at::TensorList list, const std::vector<size_t>& entries);

/// Matrices that are computed as one batch: all those of the list entries `entries`, or [first, first +
/// count) of a single entry.
struct BatchRange {
  std::vector<size_t> entries;
  int64_t first = 0;
  int64_t count = 0;

  bool is_one_entry() const { return entries.size() == 1; }
};

/// Cuts entries of one shape into batches. `count_of` is the number of matrices of an entry.
std::vector<BatchRange> cut_into_batches(const std::vector<size_t>& entries,
                                         const std::function<int64_t(size_t)>& count_of, int64_t matrix_size,
                                         const at::Device& device);

/// Whether a matrix is so small that batches of them go to different threads. A large one is worth all
/// threads.
bool is_small_matrix(int64_t matrix_size, const at::Device& device);

/// Calls `work` with 0 … count − 1, without a graph: on several threads, or one after the other.
void for_each_batch_index(size_t count, bool on_threads, const std::function<void(size_t)>& work);

}  // namespace stiefel::detail
