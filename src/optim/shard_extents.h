#pragma once

#include <ATen/ATen.h>
#include <stiefel/optim/group_options.h>
#include <stiefel/ranks.h>

#include <algorithm>
#include <vector>

/// Where a rank's part of a weight lies in the whole, so that states can be saved whole and loaded in parts.
namespace stiefel::detail {

struct ShardExtents {
  int64_t axis = 0;              ///< the divided dimension of the tensor
  std::vector<int64_t> lengths;  ///< of it, on every rank
  int64_t rank = 0;
  int64_t matrix_length = 0;  ///< the length over all ranks of the matrices' side, as Sharding has it

  /// Asks all ranks for the lengths of a weight.
  ShardExtents(const at::Tensor& weight, const GroupOptions& options, Ranks& ranks);

  /// Whether some rank has nothing of it.
  bool has_empty_part() const { return std::count(lengths.begin(), lengths.end(), 0) > 0; }

  /// The shape of the whole weight.
  std::vector<int64_t> whole_shape(const at::Tensor& part) const;

  /// This rank's part of a whole tensor.
  at::Tensor part_of(const at::Tensor& whole) const;

  /// The whole of which every rank has a part; called by all ranks.
  at::Tensor gather(const at::Tensor& part, Ranks& ranks) const;
};

/// Which of sharded weights have a gradient in this step: where a rank has an empty part, through which no
/// gradient flows, the other ranks say so. Called by all ranks; only such weights make them wait. Throws on
/// every rank where some have a gradient of a weight and others, whose parts are not empty, have none.
std::vector<bool> have_gradients(const std::vector<at::Tensor>& parameters,
                                 const std::vector<const ShardExtents*>& extents, Ranks& ranks);

}  // namespace stiefel::detail
