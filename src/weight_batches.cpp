#include "weight_batches.h"

#include <tuple>

namespace stiefel::detail {

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

WeightBatches::WeightBatches(at::TensorList weights, bool batched) : weights_(weights) {
  views_.reserve(weights.size());
  for (const auto& weight : weights) views_.emplace_back(weight, batched);
  const auto kind = [&](size_t i) {
    return std::make_tuple(views_[i].p(), views_[i].n(), arithmetic(weights_[i]));
  };
  const auto count = [&](size_t i) { return views_[i].batch(); };
  for (const auto& members : group_by(weights.size(), kind)) {
    WeightGroup group{members};
    for (auto& range : cut_into_batches(members, count, matrix_size(members[0]), weights[0].device())) {
      WeightBatch batch{std::move(range), groups_.size(), group.count};
      group.count += batch.count;
      batches_.push_back(std::move(batch));
    }
    groups_.push_back(std::move(group));
  }
}

at::Tensor WeightBatches::gather(const WeightBatch& batch) const {
  const auto matrices = [&](size_t i) { return views_[i](weights_[i].detach()).to(arithmetic(weights_[i])); };
  if (batch.is_one_entry()) return matrices(batch.entries[0]).narrow(0, batch.first, batch.count);
  std::vector<at::Tensor> all;
  all.reserve(batch.entries.size());
  for (const size_t i : batch.entries) all.push_back(matrices(i));
  return at::cat(all);
}

at::Tensor WeightBatches::home(const at::Tensor& matrices, size_t weight) const {
  const auto& like = weights_[weight];
  const auto& view = views_[weight];
  const bool transposed = like.size(static_cast<int64_t>(view.batch_shape().size())) != view.p();
  if (like.is_contiguous() && !transposed) return matrices.view(like.sizes());
  auto result = at::empty_like(like, matrices.options());
  view.write(matrices, result);
  return result;
}

void WeightBatches::for_each(const std::function<void(size_t)>& work) const {
  std::vector<size_t> large;
  std::vector<size_t> small;
  for (size_t i = 0; i < batches_.size(); ++i) {
    const bool is_small = is_small_matrix(matrix_size(batches_[i].entries[0]), weights_[0].device());
    (is_small ? small : large).push_back(i);
  }
  for_each_batch_index(large.size(), /*on_threads=*/false, [&](size_t i) { work(large[i]); });
  for_each_batch_index(small.size(), /*on_threads=*/true, [&](size_t i) { work(small[i]); });
}

}  // namespace stiefel::detail
