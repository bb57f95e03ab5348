#pragma once

#include <stiefel/manifold.h>

#include <functional>
#include <vector>

/// Turns a list of weights of any shapes into batches that are computed together.
namespace stiefel::detail {

/// The type in which a weight is computed: half and bfloat16 go up to float.
at::ScalarType arithmetic(const at::Tensor& weight);

/// Weights whose matrices have one shape and type.
struct Group {
  std::vector<size_t> members;
  int64_t count = 0;  ///< of matrices
};

/// Matrices of a group that are computed as one batch: all those of the weights `members`, or
/// [first, first + count) of a single weight.
struct Chunk {
  std::vector<size_t> members;
  int64_t first = 0;
  int64_t count = 0;
  size_t group = 0;
  int64_t offset = 0;  ///< how many matrices of the group come before

  bool is_one_weight() const { return members.size() == 1; }
};

/// How a list of weights, all on one device, is read and cut into chunks.
///
/// On an accelerator a group is one chunk. On the CPU small matrices are stacked into chunks that stay in
/// cache, and a large one is a chunk where it lies. All of it follows from shapes, strides and types, so a
/// backward pass finds the chunks of its forward pass again.
class Chunks {
 public:
  /// `weights` must outlive the chunks.
  Chunks(at::TensorList weights, bool batched);

  const MatrixView& view(size_t weight) const { return views_[weight]; }
  const std::vector<Group>& groups() const { return groups_; }
  const std::vector<Chunk>& all() const { return chunks_; }

  /// A chunk's matrices, (B, p, n), in the type of the arithmetic: a view where the weight stands alone.
  at::Tensor gather(const Chunk& chunk) const;

  /// Matrices from a batch in the shape of their weight. The result is a part of the batch's memory where the
  /// weight lies in the same order.
  at::Tensor home(const at::Tensor& matrices, size_t weight) const;

  /// Calls `work` on the number of every chunk, without a graph: large matrices one after the other by all
  /// threads, small ones on a thread a chunk.
  void for_each(const std::function<void(size_t)>& work) const;

 private:
  int64_t matrix_size(size_t weight) const { return views_[weight].p() * views_[weight].n(); }
  bool is_small(const Chunk& chunk) const;
  void sort_in(size_t weight);
  void cut(size_t group);

  at::TensorList weights_;
  std::vector<MatrixView> views_;
  std::vector<Group> groups_;
  std::vector<Chunk> chunks_;
};

}  // namespace stiefel::detail
