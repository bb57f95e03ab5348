#pragma once

#include <stiefel/manifold.h>

#include <functional>
#include <vector>

#include "batches.h"

namespace stiefel::detail {

/// The type in which a weight is computed: half and bfloat16 go up to float.
at::ScalarType arithmetic(const at::Tensor& weight);

/// Weights whose matrices have one shape and type.
struct WeightGroup {
  std::vector<size_t> members;
  int64_t count = 0;  ///< of matrices
};

/// Matrices of a group that are computed as one batch.
struct WeightBatch : BatchRange {
  size_t group = 0;
  int64_t offset = 0;  ///< how many matrices of the group come before
};

/// How a list of weights of any shapes, all on one device, is read as matrices and cut into batches. All of
/// it follows from shapes, strides and types, so a backward pass finds the batches of its forward pass again.
class WeightBatches {
 public:
  /// `weights` must outlive the batches.
  WeightBatches(at::TensorList weights, bool batched);

  const MatrixView& view(size_t weight) const { return views_[weight]; }
  const std::vector<WeightGroup>& groups() const { return groups_; }
  const std::vector<WeightBatch>& all() const { return batches_; }

  /// A batch's matrices, (B, p, n), in the type of the arithmetic: a view where the weight stands alone.
  at::Tensor gather(const WeightBatch& batch) const;

  /// Matrices from a batch in the shape of their weight. The result is a part of the batch's memory where the
  /// weight lies in the same order.
  at::Tensor home(const at::Tensor& matrices, size_t weight) const;

  /// Calls `work` on the number of every batch, without a graph: large matrices one after the other by all
  /// threads, small ones on a thread per batch.
  void for_each(const std::function<void(size_t)>& work) const;

 private:
  int64_t matrix_size(size_t weight) const { return views_[weight].p() * views_[weight].n(); }

  at::TensorList weights_;
  std::vector<MatrixView> views_;
  std::vector<WeightGroup> groups_;
  std::vector<WeightBatch> batches_;
};

}  // namespace stiefel::detail
