#include "chunks.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace stiefel::detail {

namespace {

// Elements of a stack that stays in the second-level cache with its temporaries; a matrix of this size is
// worth all threads.
constexpr int64_t kChunkStack = 1 << 16;

}  // namespace

at::ScalarType arithmetic(const at::Tensor& weight) {
  switch (weight.scalar_type()) {
    case at::kHalf:
    case at::kBFloat16:
      return at::kFloat;
    case at::kComplexHalf:
      return at::kComplexFloat;
    default:
      return weight.scalar_type();
  }
}

Chunks::Chunks(at::TensorList weights, bool batched) : weights_(weights) {
  views_.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    views_.emplace_back(weights[i], batched);
    sort_in(i);
  }
  for (size_t g = 0; g < groups_.size(); ++g) cut(g);
}

void Chunks::sort_in(size_t weight) {
  const auto& view = views_[weight];
  const auto fits = [&](const Group& group) {
    const size_t other = group.members[0];
    return view.p() == views_[other].p() && view.n() == views_[other].n() &&
           arithmetic(weights_[weight]) == arithmetic(weights_[other]);
  };
  auto group = std::find_if(groups_.begin(), groups_.end(), fits);
  if (group == groups_.end()) group = groups_.insert(groups_.end(), Group{});
  group->members.push_back(weight);
  group->count += view.batch();
}

void Chunks::cut(size_t group) {
  const auto& mine = groups_[group];
  const bool whole = !weights_[0].device().is_cpu();
  const int64_t most = whole ? mine.count : std::max<int64_t>(1, kChunkStack / matrix_size(mine.members[0]));
  int64_t offset = 0;
  bool open = false;  // whether the last chunk may take another weight
  for (const size_t i : mine.members) {
    const int64_t batch = views_[i].batch();
    if (open && chunks_.back().count + batch <= most) {
      chunks_.back().members.push_back(i);
      chunks_.back().count += batch;
    } else {
      for (int64_t first = 0; first < batch; first += most) {
        chunks_.push_back({{i}, first, std::min(most, batch - first), group, offset + first});
      }
      open = batch < most;
    }
    offset += batch;
  }
}

at::Tensor Chunks::gather(const Chunk& chunk) const {
  const auto matrices = [&](size_t i) { return views_[i](weights_[i].detach()).to(arithmetic(weights_[i])); };
  if (chunk.is_one_weight()) return matrices(chunk.members[0]).narrow(0, chunk.first, chunk.count);
  std::vector<at::Tensor> all;
  all.reserve(chunk.members.size());
  for (const size_t i : chunk.members) all.push_back(matrices(i));
  return at::cat(all);
}

at::Tensor Chunks::home(const at::Tensor& matrices, size_t weight) const {
  const auto& like = weights_[weight];
  const auto& view = views_[weight];
  const bool transposed = like.size(static_cast<int64_t>(view.batch_shape().size())) != view.p();
  if (like.is_contiguous() && !transposed) return matrices.view(like.sizes());
  auto result = at::empty_like(like, matrices.options());
  view.write(matrices, result);
  return result;
}

bool Chunks::is_small(const Chunk& chunk) const {
  return weights_[0].device().is_cpu() && matrix_size(chunk.members[0]) < kChunkStack;
}

void Chunks::for_each(const std::function<void(size_t)>& work) const {
  std::vector<size_t> large;
  std::vector<size_t> small;
  for (size_t i = 0; i < chunks_.size(); ++i) (is_small(chunks_[i]) ? small : large).push_back(i);
  const at::NoGradGuard no_grad;
  for (const size_t i : large) work(i);
  at::parallel_for(0, static_cast<int64_t>(small.size()), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard mine;  // a thread's own
    for (int64_t i = begin; i < end; ++i) work(small[i]);
  });
}

}  // namespace stiefel::detail
