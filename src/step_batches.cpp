#include "step_batches.h"

#include <algorithm>
#include <cstring>

namespace stiefel::detail {

namespace {

at::Tensor gather(at::TensorList list, const BatchRange& range) {
  if (range.is_one_entry()) return list[range.entries[0]].narrow(0, range.first, range.count);
  return at::cat(pick(list, range.entries));
}

/// Copies a batch into the list entries it was gathered from.
void copy_out(const at::Tensor& batch, at::TensorList list, const std::vector<size_t>& entries) {
  const bool plain =
      batch.device().is_cpu() && batch.is_contiguous() &&
      std::all_of(entries.begin(), entries.end(), [&](size_t i) { return list[i].is_contiguous(); });
  if (plain) {
    // One loop of copies instead of an operator call per entry: there may be thousands.
    const auto* from = static_cast<const char*>(batch.data_ptr());
    for (const size_t i : entries) {
      std::memcpy(list[i].data_ptr(), from, list[i].nbytes());
      from += list[i].nbytes();
    }
    return;
  }
  const auto parts = batch.chunk(static_cast<int64_t>(entries.size()), 0);
  for (size_t i = 0; i < entries.size(); ++i) {
    auto& home = list[entries[i]];
    home.copy_(parts[i].reshape(home.sizes()));
  }
}

}  // namespace

void for_each_batch(const StepMatrices& matrices, const std::function<void(StepSlice&)>& work) {
  const auto& points = matrices.points;
  const auto& momenta = matrices.momenta;
  for (const auto& entries : group_by(points.size(), [&](size_t i) { return points[i].sizes().vec(); })) {
    const auto& first = points[entries[0]];
    const int64_t size = first.size(1) * first.size(2);
    const auto batches = cut_into_batches(
        entries, [&](size_t i) { return matrices.count(i); }, size, first.device());
    for_each_batch_index(batches.size(), is_small_matrix(size, first.device()), [&](size_t b) {
      const auto& range = batches[b];
      StepSlice slice{range, gather(points, range), momenta.empty() ? at::Tensor() : gather(momenta, range),
                      gather(matrices.gradients, range)};
      work(slice);
      if (range.is_one_entry()) return;  // stepped where it lies
      copy_out(slice.x, points, range.entries);
      if (!momenta.empty()) copy_out(slice.m, momenta, range.entries);
    });
  }
}

at::Tensor gather_scalars(at::TensorList list, const BatchRange& range) {
  if (range.is_one_entry()) {
    return list[range.entries[0]].reshape({-1}).narrow(0, range.first, range.count);
  }
  std::vector<at::Tensor> flat;
  flat.reserve(range.entries.size());
  for (const size_t i : range.entries) flat.push_back(list[i].reshape({-1}));
  return at::cat(flat);
}

void scatter_scalars(at::TensorList list, const BatchRange& range, const at::Tensor& values) {
  if (range.is_one_entry()) {
    list[range.entries[0]].view({-1}).narrow(0, range.first, range.count).copy_(values);
  } else {
    copy_out(values, list, range.entries);
  }
}

}  // namespace stiefel::detail
