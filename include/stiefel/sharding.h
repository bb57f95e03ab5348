#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>
#include <stiefel/ranks.h>

#include <cstdint>
#include <memory>
#include <vector>

/// Matrices that are divided among ranks along their long side.
///
/// A p×n matrix x of which every rank has some of the n columns is stepped where it lies: E = xxᴴ − I, S =
/// xmᴴ and T = mmᴴ are sums over the columns, so the ranks add up p×p matrices, compute the same
/// coefficients, and each moves its own columns. x itself is never gathered.
namespace stiefel {

/// How the weights of a step are divided.
struct STIEFEL_API Sharding {
  std::shared_ptr<Ranks> ranks;  ///< none: every rank has all of every weight
  /// Which dimension of a weight (c_out, rest) is divided: 0 where its columns are orthonormal, 1 where its
  /// rows are. With `batched`, of each matrix.
  int64_t dim = 1;
  /// How long that dimension is over all ranks, for every weight; `rest` counts as one dimension.
  std::vector<int64_t> lengths;

  explicit operator bool() const { return ranks != nullptr; }
};

/// How long the divided dimension of a weight is on this rank.
STIEFEL_API int64_t shard_length(const at::Tensor& weight, int64_t dim, bool batched = false);

/// ‖XᴴX − I‖_F of weights of which this rank has a part, one number per matrix, alike on every rank. Called
/// by all ranks.
STIEFEL_API at::Tensor sharded_defect(const at::Tensor& weight, Ranks& ranks, int64_t dim,
                                      bool batched = false);

/// Replaces each matrix by the nearest orthonormal one, in place: X(XᴴX)^(−½), by an eigendecomposition of
/// p×p in double. Throws on every rank where a matrix has not full rank or is not finite. Called by all
/// ranks.
STIEFEL_API at::Tensor sharded_orthonormalize_(const at::Tensor& weight, Ranks& ranks, int64_t dim,
                                               bool batched = false);

}  // namespace stiefel
