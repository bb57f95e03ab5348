#include "step_matrices.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stiefel::detail {

namespace {

bool same_kind(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

void check_list(at::TensorList list, const char* name, at::TensorList weights) {
  TORCH_CHECK(list.size() == weights.size(), "stiefel: ", weights.size(), " points came with ", list.size(),
              " ", name);
  for (size_t i = 0; i < list.size(); ++i) {
    const auto& weight = weights[i];
    // Sizes may be symbols where torch.compile traces.
    TORCH_CHECK(list[i].defined() && same_kind(list[i], weight) && list[i].sym_sizes() == weight.sym_sizes(),
                "stiefel: the ", name, " must be like their points; entry ", i, " is ",
                list[i].defined() ? c10::toString(list[i].scalar_type()) : "undefined", " ",
                list[i].defined() ? list[i].sym_sizes() : c10::SymIntArrayRef(), ", its point ",
                weight.scalar_type(), " ", weight.sym_sizes(), " on ", weight.device());
  }
}

/// Whether a tensor is (B, p, n) with p ≤ n in memory, so that it is its own matrices.
bool is_plain(const at::Tensor& t, bool batched) {
  return batched && t.dim() == 3 && t.size(1) <= t.size(2) && t.numel() > 0 && !t.is_conj() && !t.is_neg();
}

/// The bytes from the first element of a tensor to the last.
struct Extent {
  uintptr_t begin;
  uintptr_t end;
  const at::Tensor* tensor;
};

Extent extent_of(const at::Tensor& t) {
  int64_t span = 1;
  for (int64_t i = 0; i < t.dim(); ++i) span += (t.size(i) - 1) * t.stride(i);
  const auto begin = reinterpret_cast<uintptr_t>(t.data_ptr());
  return {begin, begin + static_cast<uintptr_t>(span) * t.element_size(), &t};
}

/// Whether an offset is a sum of k_i strides with −below_i ≤ k_i ≤ above_i, from dimension `at` on.
/// Dimensions come with the longest stride first; each stride is tried only where the shorter ones can make
/// up the rest.
struct Reach {
  int64_t stride, below, above;
};
bool is_reached(const std::vector<Reach>& dimensions, size_t at, int64_t offset) {
  if (at == dimensions.size()) return offset == 0;
  int64_t down = 0, up = 0;  // what the shorter strides can make up
  for (size_t i = at + 1; i < dimensions.size(); ++i) {
    down += dimensions[i].below * dimensions[i].stride;
    up += dimensions[i].above * dimensions[i].stride;
  }
  const auto& [stride, below, above] = dimensions[at];
  const auto quotient = static_cast<double>(stride);
  const auto first =
      std::max(-below, static_cast<int64_t>(std::ceil(static_cast<double>(offset - up) / quotient)));
  const auto last =
      std::min(above, static_cast<int64_t>(std::floor(static_cast<double>(offset + down) / quotient)));
  for (int64_t k = first; k <= last; ++k) {
    if (is_reached(dimensions, at + 1, offset - k * stride)) return true;
  }
  return false;
}

/// Whether two slices with the same strides have an element in common: a(i) and b(j) are the same where
/// Σ(i_k − j_k)·stride_k is the distance between their first elements.
bool aligned_slices_overlap(const at::Tensor& a, const at::Tensor& b, int64_t distance) {
  std::vector<Reach> dimensions;
  for (int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) > 1 || b.size(i) > 1) dimensions.push_back({a.stride(i), b.size(i) - 1, a.size(i) - 1});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Reach& l, const Reach& r) { return l.stride > r.stride; });
  return is_reached(dimensions, 0, distance);
}

/// Whether two tensors have the same strides, wherever a stride matters.
bool has_strides_of(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() != b.dim()) return false;
  for (int64_t i = 0; i < a.dim(); ++i) {
    if (a.stride(i) != b.stride(i) && (a.size(i) > 1 || b.size(i) > 1)) return false;
  }
  return true;
}

/// Whether two tensors have an element in common, given that their extents overlap. Slices of one tensor may
/// lie between each other, as the left and the right half of a matrix do; of slices with different strides
/// nothing is known, and they count as overlapping.
bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_non_overlapping_and_dense() && b.is_non_overlapping_and_dense()) return true;
  if (!has_strides_of(a, b) || a.element_size() != b.element_size()) return true;
  const auto bytes = static_cast<const char*>(b.data_ptr()) - static_cast<const char*>(a.data_ptr());
  const auto element = static_cast<int64_t>(a.element_size());
  return bytes % element != 0 || aligned_slices_overlap(a, b, bytes / element);
}

bool overlaps_itself(const at::Tensor& t) {
  if (t.is_non_overlapping_and_dense()) return false;
  // Sorted by stride, each dimension must step over all that lies within it.
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride, size
  for (int64_t i = 0; i < t.dim(); ++i) {
    if (t.size(i) > 1) dimensions.emplace_back(t.stride(i), t.size(i));
  }
  std::sort(dimensions.begin(), dimensions.end());
  int64_t within = 1;
  for (const auto& [stride, size] : dimensions) {
    if (stride < within) return true;
    within = stride * (size - 1) + within;
  }
  return false;
}

}  // namespace

void check_step_tensors(at::TensorList weights, at::TensorList momenta, at::TensorList gradients) {
  for (const auto& weight : weights) {
    TORCH_CHECK(weight.defined() && weight.layout() == at::kStrided,
                "stiefel: a point must be a dense tensor");
    const auto type = c10::toRealValueType(weight.scalar_type());
    TORCH_CHECK(type == at::kFloat || type == at::kDouble,
                "stiefel: points are float, double or complex of these; got ", weight.scalar_type());
    TORCH_CHECK(same_kind(weight, weights[0]),
                "stiefel: the points of one step must have one type and device; got ",
                weights[0].scalar_type(), " on ", weights[0].device(), " and ", weight.scalar_type(), " on ",
                weight.device());
  }
  if (!momenta.empty()) check_list(momenta, "momenta", weights);
  check_list(gradients, "gradients", weights);
}

StepMatrices::StepMatrices(at::TensorList weights, at::TensorList home_momenta, at::TensorList home_gradients,
                           bool batched)
    : weights_(weights), home_momenta_(home_momenta) {
  check_step_tensors(weights, home_momenta, home_gradients);
  std::vector<at::Tensor> written(weights.begin(), weights.end());
  written.insert(written.end(), home_momenta.begin(), home_momenta.end());
  check_no_overlap(written);
  views_.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    auto& view = views_[i];
    if (!is_plain(weights[i], batched)) view.emplace(weights[i], batched);
    const auto matrices = [&](const at::Tensor& t) {
      return view ? (*view)(t) : t.resolve_conj().resolve_neg();
    };
    points.push_back(matrices(weights[i]));
    if (!home_momenta.empty()) momenta.push_back(matrices(home_momenta[i]));
    gradients.push_back(matrices(home_gradients[i]));
  }
}

std::vector<int64_t> StepMatrices::counts() const {
  std::vector<int64_t> result;
  for (const auto& point : points) result.push_back(point.size(0));
  return result;
}

void StepMatrices::write_back() const {
  const auto write = [](const std::optional<MatrixView>& view, const at::Tensor& matrices,
                        const at::Tensor& home) {
    if (view) {
      view->write(matrices, home);
    } else if (!matrices.is_same(home)) {
      home.copy_(matrices);
    }
  };
  for (size_t i = 0; i < points.size(); ++i) {
    write(views_[i], points[i], weights_[i]);
    if (!momenta.empty()) write(views_[i], momenta[i], home_momenta_[i]);
  }
}

void check_momenta(at::TensorList points, at::TensorList momenta) {
  TORCH_CHECK(momenta.size() == points.size(), "stiefel: ", points.size(), " points came with ",
              momenta.size(), " momenta");
}

void check_scalars(const at::Tensor& rate, const StepCounters& counters, const at::Device& device) {
  TORCH_CHECK(rate.defined() && rate.device() == device && rate.numel() == 1 &&
                  (rate.scalar_type() == at::kDouble || rate.scalar_type() == at::kFloat),
              "stiefel: the rate must be one float or double on ", device, "; got ", rate.toString(), " ",
              rate.defined() ? rate.sizes() : at::IntArrayRef());
  const auto check = [&](const at::Tensor& counter, const char* what) {
    TORCH_CHECK(counter.defined() && counter.device() == device && counter.numel() == 1 &&
                    counter.scalar_type() == at::kLong,
                "stiefel: the count of ", what, " must be one int64 on ", device, "; got ",
                counter.toString(), " ", counter.defined() ? counter.sizes() : at::IntArrayRef());
  };
  check(counters.skipped, "skipped steps");
  if (counters.off_manifold.defined()) check(counters.off_manifold, "matrices off the manifold");
}

void check_numbers(at::TensorList list, const char* name, const std::vector<int64_t>& counts,
                   const at::Device& device) {
  TORCH_CHECK(list.size() == counts.size(), "stiefel: ", counts.size(), " points came with ", list.size(),
              " ", name);
  for (size_t i = 0; i < list.size(); ++i) {
    const auto& numbers = list[i];
    TORCH_CHECK(numbers.defined() && numbers.scalar_type() == at::kDouble && numbers.numel() == counts[i] &&
                    numbers.device() == device && numbers.is_contiguous(),
                "stiefel: the ", name, " must be one double per matrix on the points' device; entry ", i,
                " is ", numbers.toString(), " ", numbers.defined() ? numbers.sizes() : at::IntArrayRef(),
                " for ", counts[i], " matrices");
  }
}

void check_no_overlap(const std::vector<at::Tensor>& written) {
  std::vector<Extent> extents;
  for (const auto& t : written) {
    if (t.numel() == 0) continue;
    TORCH_CHECK(!overlaps_itself(t), "stiefel: a tensor of shape ", t.sizes(), " and strides ", t.strides(),
                " overlaps itself in memory, so a step would write it twice; clone it first");
    extents.push_back(extent_of(t));
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < extents.size(); ++i) {
    for (size_t j = i + 1; j < extents.size() && extents[j].begin < extents[i].end; ++j) {
      TORCH_CHECK(
          !share_memory(*extents[i].tensor, *extents[j].tensor), "stiefel: two tensors of a step, of shapes ",
          extents[i].tensor->sizes(), " and ", extents[j].tensor->sizes(),
          ", overlap in memory, so a step would write one through the other; list each weight once, and "
          "clone views of the same memory");
    }
  }
}

double farthest(const at::Tensor& weight, bool batched) {
  const double off = defect(weight, batched).max().item<double>();
  return std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
}

void fail_off_manifold(int64_t matrices, const at::Tensor& weight, bool batched) {
  const double off = weight.defined() ? farthest(weight, batched) : 0;
  const auto* were = matrices == 1 ? " matrix was" : " matrices were";
  TORCH_CHECK(off > kFarthestStart, "stiefel: ", matrices, were,
              " left in place at an earlier step, being too far off the manifold for a step to draw in");
  TORCH_CHECK(false, "stiefel: ", matrices, were, " left in place: a weight of shape ", weight.sizes(),
              " is off the manifold by ‖XᴴX − I‖ = ", off, ", too far for a step to draw it in (",
              kFarthestStart,
              "). Was it loaded or scaled after the optimizer was made? Call stiefel::orthonormalize_ on it");
}

void fail_sharded_off_manifold(int64_t matrices) {
  TORCH_CHECK(
      false, "stiefel: ", matrices, matrices == 1 ? " sharded matrix was" : " sharded matrices were",
      " left in place, being off the manifold by more than ", kFarthestStart,
      ", too far for a step to draw in. Was a weight loaded or scaled after the optimizer was made? Call "
      "stiefel::sharded_orthonormalize_ on it, on every rank");
}

void run_step(at::TensorList weights, at::TensorList momenta, at::TensorList gradients,
              const at::Tensor& rate, StepCounters counters, bool batched,
              const std::function<void(const StepMatrices&, const StepCounters&)>& step) {
  const at::NoGradGuard no_grad;
  const StepMatrices matrices(weights, momenta, gradients, batched);
  if (weights.empty()) return;
  check_scalars(rate, counters, weights[0].device());
  const bool reports = !counters.off_manifold.defined() && weights[0].device().is_cpu();
  if (reports) counters.off_manifold = at::zeros({}, at::kLong);
  step(matrices, counters);
  matrices.write_back();
  if (!reports) return;
  const auto off = counters.off_manifold.item<int64_t>();
  if (off == 0) return;
  const auto worst = std::max_element(
      weights.begin(), weights.end(),
      [&](const at::Tensor& a, const at::Tensor& b) { return farthest(a, batched) < farthest(b, batched); });
  fail_off_manifold(off, *worst, batched);
}

}  // namespace stiefel::detail
