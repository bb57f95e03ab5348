#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>

#include <vector>

/// Weights as points of the Stiefel manifold.
///
/// A weight of shape (c_out, …) is the matrix p×n with p = c_out and n the product of the rest. Its smaller
/// side is orthonormal: the rows where p ≤ n, the columns where p > n. With `batched`, a weight (…, p, n) is
/// a stack of matrices instead. Real and complex types; XᴴX means the conjugate transpose throughout.
namespace stiefel {

/// How one weight is read as matrices. The order of the n entries within a row does not matter to
/// orthonormality, so a channels-last weight is read in the order of its memory, and any layout whose rows
/// can be strided over is read without a copy.
class STIEFEL_API MatrixView {
 public:
  explicit MatrixView(const at::Tensor& weight, bool batched = false);

  /// `t`, shaped like the weight, as (B, p, n) with p ≤ n. It shares t's memory where t's layout allows and
  /// is a copy elsewhere, which `write` brings back.
  at::Tensor operator()(const at::Tensor& t) const;

  /// Writes matrices (B, p, n) into t, a tensor shaped like the weight. Does nothing where they are a view of
  /// it already.
  void write(const at::Tensor& matrices, const at::Tensor& t) const;

  int64_t batch() const { return batch_; }
  int64_t p() const { return p_; }
  int64_t n() const { return n_; }

  /// The shape of per-matrix numbers: () for one matrix, the leading sizes of a stack.
  const std::vector<int64_t>& batch_shape() const { return batch_shape_; }

 private:
  std::vector<int64_t> order_;  // the dimensions of the weight in the order they are read
  std::vector<int64_t> batch_shape_;
  int64_t batch_ = 1;
  int64_t p_ = 0;
  int64_t n_ = 0;
  bool transposed_ = false;
  bool trivial_ = false;
};

/// The largest ‖XᴴX − I‖_F from which a corrected step can draw a matrix back onto the manifold.
constexpr double kFarthestStart = 0.5;

/// ‖XᴴX − I‖_F of each matrix, computed in double.
STIEFEL_API at::Tensor defect(const at::Tensor& weight, bool batched = false);

/// Replaces each matrix by the nearest orthonormal one (its polar factor). Throws where a matrix has no full
/// rank, since then there is no nearest one.
STIEFEL_API at::Tensor orthonormalize_(const at::Tensor& weight, bool batched = false);

/// The part of `vector` that is tangent to the manifold at `weight`: Z − X ½(XᴴZ + ZᴴX).
STIEFEL_API at::Tensor project_tangent(const at::Tensor& weight, const at::Tensor& vector,
                                       bool batched = false);

}  // namespace stiefel
