#pragma once

#include <ATen/ATen.h>

namespace stiefel::detail {

/// A rank's part of the matrices of a weight, read as rows (B, p, n_r): p is whole, n_r columns are here,
/// none perhaps.
class ShardView {
 public:
  /// `dim` and `batched` as in Sharding.
  ShardView(const at::Tensor& weight, int64_t dim, bool batched);

  /// A tensor of the weight's shape as rows; memory of its own only where the layout asks for it.
  at::Tensor operator()(const at::Tensor& t) const;

  /// Writes rows back where they are not the tensor's own memory.
  void write(const at::Tensor& rows, const at::Tensor& t) const;

  int64_t batch() const { return batch_; }
  int64_t p() const { return transposed_ ? second_ : first_; }
  int64_t length() const { return transposed_ ? first_ : second_; }
  /// The shape of one number per matrix.
  const std::vector<int64_t>& batch_shape() const { return batch_shape_; }

 private:
  int64_t batch_ = 1, first_ = 0, second_ = 1;
  bool transposed_;
  std::vector<int64_t> batch_shape_;
};

}  // namespace stiefel::detail
