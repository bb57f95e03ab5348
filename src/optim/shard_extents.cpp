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

std::vector<bool> have_gradients(const std::vector<at::Tensor>& parameters,
                                 const std::vector<const ShardExtents*>& extents, Ranks& ranks) {
  std::vector<bool> have;
  std::vector<size_t> asked;
  std::vector<int64_t> mine;
  for (size_t i = 0; i < parameters.size(); ++i) {
    have.push_back(parameters[i].grad().defined());
    if (!extents[i]->has_empty_part()) continue;
    asked.push_back(i);
    mine.push_back(have[i] ? 1 : 0);
  }
  if (asked.empty()) return have;
  const auto all = ranks.gather(at::tensor(mine, at::kLong).to(parameters[0].device())).to(at::kCPU);
  for (size_t j = 0; j < asked.size(); ++j) {
    const auto& lengths = extents[asked[j]]->lengths;
    int64_t with = -1, without = -1;
    for (int64_t r = 0; r < ranks.size(); ++r) {
      if (lengths[static_cast<size_t>(r)] == 0) continue;
      (all[r][static_cast<int64_t>(j)].item<int64_t>() > 0 ? with : without) = r;
    }
    TORCH_CHECK(with < 0 || without < 0, "stiefel: rank ", with,
                " has a gradient of its part of a weight and rank ", without,
                " has none; a weight that is divided has a gradient on all ranks, or on none");
    have[asked[j]] = with >= 0;
  }
  return have;
}

}  // namespace stiefel::detail
