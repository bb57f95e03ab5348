#include "batches.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace stiefel::detail {

namespace {

// Numbers of elements, chosen by measurement: a matrix this large is worth all threads, and a stack of small
// ones should stay in the second-level cache with its temporaries.
constexpr int64_t kLargeMatrix = 1 << 16;
constexpr int64_t kStack = 1 << 16;

int64_t matrix_size(const at::Tensor& t) { return t.size(-2) * t.size(-1); }

/// Copies a batch into list entries [begin, end).
void copy_out(const at::Tensor& batch, at::TensorList list, size_t begin, size_t end) {
  const bool plain = batch.device().is_cpu() && batch.is_contiguous() &&
                     std::all_of(list.begin() + begin, list.begin() + end,
                                 [](const at::Tensor& t) { return t.is_contiguous(); });
  if (plain) {
    // One loop of copies instead of an operator call an entry: there may be thousands.
    const size_t bytes = list[begin].nbytes();
    const auto* from = static_cast<const char*>(batch.data_ptr());
    for (size_t i = begin; i < end; ++i, from += bytes) std::memcpy(list[i].data_ptr(), from, bytes);
    return;
  }
  const auto parts = batch.chunk(static_cast<int64_t>(end - begin), 0);
  for (size_t i = begin; i < end; ++i) list[i].copy_(parts[i - begin].reshape(list[i].sizes()));
}

}  // namespace

Batches::Batches(at::TensorList points, at::TensorList momenta, at::TensorList gradients)
    : points_(points), momenta_(momenta), gradients_(gradients) {}

std::vector<Batches::Range> Batches::ranges() const {
  const auto& first = points_[0];
  const int64_t per_entry = first.numel() / matrix_size(first);
  if (!first.device().is_cpu()) return {{0, points_.size(), 0, per_entry}};
  std::vector<Range> all;
  if (first.numel() >= kStack) {
    // Entries worth a slice or more each: stacks are cut, single matrices go alone.
    const int64_t step = std::max<int64_t>(1, kStack / matrix_size(first));
    for (size_t i = 0; i < points_.size(); ++i) {
      for (int64_t j = 0; j < per_entry; j += step)
        all.push_back({i, i + 1, j, std::min(step, per_entry - j)});
    }
  } else {
    const auto step = static_cast<size_t>(std::max<int64_t>(1, kStack / first.numel()));
    for (size_t i = 0; i < points_.size(); i += step) {
      all.push_back({i, std::min(points_.size(), i + step), 0, per_entry});
    }
  }
  return all;
}

Batches::Slice Batches::gather(const Range& range) const {
  const auto all = [&](at::TensorList list) {
    if (range.is_one_entry()) return list[range.begin].narrow(0, range.first, range.count);
    return at::cat(list.slice(range.begin, range.end - range.begin));
  };
  return {range, all(points_), momenta_.empty() ? at::Tensor() : all(momenta_), all(gradients_)};
}

void Batches::scatter(const Slice& slice) const {
  if (slice.range.is_one_entry()) return;  // stepped where it lies
  copy_out(slice.x, points_, slice.range.begin, slice.range.end);
  if (!momenta_.empty()) copy_out(slice.m, momenta_, slice.range.begin, slice.range.end);
}

void Batches::for_each(const std::function<void(Slice&)>& work) const {
  if (points_.empty()) return;
  const auto all = ranges();
  const auto run = [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad;  // a thread's own
    for (int64_t i = begin; i < end; ++i) {
      auto slice = gather(all[i]);
      work(slice);
      scatter(slice);
    }
  };
  const bool small = points_[0].device().is_cpu() && matrix_size(points_[0]) < kLargeMatrix;
  const auto count = static_cast<int64_t>(all.size());
  if (small && count > 1) {
    at::parallel_for(0, count, 1, run);
  } else {
    run(0, count);
  }
}

void for_each_batch(const StepMatrices& matrices,
                    const std::function<void(Batches::Slice&, const std::vector<size_t>& entries)>& work) {
  std::map<std::vector<int64_t>, std::vector<size_t>> shapes;
  for (size_t i = 0; i < matrices.points.size(); ++i) shapes[matrices.points[i].sizes().vec()].push_back(i);
  for (const auto& shape : shapes) {
    const auto& entries = shape.second;
    const auto points = pick(matrices.points, entries);
    const auto momenta = pick(matrices.momenta, entries);
    const auto gradients = pick(matrices.gradients, entries);
    Batches(points, momenta, gradients).for_each([&](Batches::Slice& slice) { work(slice, entries); });
  }
}

std::vector<at::Tensor> pick(at::TensorList list, const std::vector<size_t>& entries) {
  std::vector<at::Tensor> result;
  if (list.empty()) return result;
  result.reserve(entries.size());
  for (const size_t i : entries) result.push_back(list[i]);
  return result;
}

at::Tensor gather_scalars(at::TensorList list, const Batches::Range& range) {
  if (range.is_one_entry()) return list[range.begin].reshape({-1}).narrow(0, range.first, range.count);
  std::vector<at::Tensor> flat;
  flat.reserve(range.end - range.begin);
  for (size_t i = range.begin; i < range.end; ++i) flat.push_back(list[i].reshape({-1}));
  return at::cat(flat);
}

void scatter_scalars(at::TensorList list, const Batches::Range& range, const at::Tensor& values) {
  if (range.is_one_entry()) {
    list[range.begin].view({-1}).narrow(0, range.first, range.count).copy_(values);
  } else {
    copy_out(values, list, range.begin, range.end);
  }
}

}  // namespace stiefel::detail
