#include "shard_extents.h"

#include <stiefel/sharding.h>

#include <algorithm>
#include <numeric>

namespace stiefel::detail {

ShardExtents::ShardExtents(const at::Tensor& weight, const GroupOptions& options, Ranks& ranks)
    : axis(options.batched() ? weight.dim() - 2 + options.shard_dim() : options.shard_dim()),
      rank(ranks.rank()) {
  auto numbers = weight.sizes().vec();
  const auto mine = shard_length(weight, options.shard_dim(), options.batched());
  const auto of_ranks =
      ranks.gather(at::tensor(numbers, at::kLong).to(weight.device())).to(at::kCPU);  // (ranks, dimensions)
  for (int64_t r = 0; r < ranks.size(); ++r) {
    for (int64_t d = 0; d < weight.dim(); ++d) {
      const auto size = of_ranks[r][d].item<int64_t>();
      TORCH_CHECK(d == axis || size == weight.size(d), "stiefel: this rank's part of a weight has the shape ",
                  weight.sizes(), ", that of rank ", r, " has ", size, " in dimension ", d,
                  "; only dimension ", axis, " is divided");
    }
    lengths.push_back(of_ranks[r][axis].item<int64_t>());
  }
  // Dimensions that are not divided are alike, and the side of the matrices may be several of them.
  const auto total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  numbers[static_cast<size_t>(axis)] = 1;
  const auto per_slice = shard_length(at::empty(numbers, at::kChar), options.shard_dim(), options.batched());
  matrix_length = total * per_slice;
  TORCH_INTERNAL_ASSERT(mine == weight.size(axis) * per_slice);
}

std::vector<int64_t> ShardExtents::whole_shape(const at::Tensor& part) const {
  auto shape = part.sizes().vec();
  shape[static_cast<size_t>(axis)] = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return shape;
}

at::Tensor ShardExtents::part_of(const at::Tensor& whole) const {
  const auto first = std::accumulate(lengths.begin(), lengths.begin() + rank, int64_t{0});
  return whole.narrow(axis, first, lengths[static_cast<size_t>(rank)]);
}

at::Tensor ShardExtents::gather(const at::Tensor& part, Ranks& ranks) const {
  // Messages are equally long.
  auto shape = part.sizes().vec();
  shape[static_cast<size_t>(axis)] = *std::max_element(lengths.begin(), lengths.end());
  auto padded = at::zeros(shape, part.options());
  padded.narrow(axis, 0, part.size(axis)).copy_(part);
  const auto all = ranks.gather(padded);
  std::vector<at::Tensor> parts;
  for (size_t r = 0; r < lengths.size(); ++r) {
    parts.push_back(all[static_cast<int64_t>(r)].narrow(axis, 0, lengths[r]));
  }
  return at::cat(parts, axis);
}

}  // namespace stiefel::detail
