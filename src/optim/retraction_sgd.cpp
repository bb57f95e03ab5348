#include <stiefel/optim/retraction_sgd.h>

#include <algorithm>
#include <cmath>

#include "algebra.h"
#include "gradients.h"
#include "step_batches.h"

namespace stiefel::detail {

namespace {

// The largest |tr E| after a short step that counts as on the manifold, and by how much a step may add to
// what was there beyond a limit. Newton–Schulz approaches the manifold from within, where ‖E‖_F ≤ |tr E|.
constexpr double kLargestTrace = kFarthestStart / 2;
constexpr double kRounding = 1e-3;

// After a step with l‖D‖_F beyond the first, E itself is looked at: ‖E‖_F may be the second times √p, where
// the method has no bound of its own.
constexpr double kShortStep = 1;
constexpr double kLargestDefect = 5e-4;
constexpr double kAddedDefect = 1e-4;

/// |tr E| = |‖X‖²_F − p| of each matrix, given ‖X‖_F: one pass over X, where E itself costs a product.
/// ‖E‖_F ≥ |tr E|/√p, so a large trace shows a matrix that is off the manifold, and a retraction that lost
/// singular values.
at::Tensor trace_of_drift(const at::Tensor& norm, int64_t p) {
  return norm.square().sub_(static_cast<double>(p)).abs_();
}

/// Whether holds(|tr E|, |tr E| before) for every matrix of a batch on the CPU, without a tensor in between.
template <class Holds>
bool all_hold(const at::Tensor& norm, const at::Tensor& before, int64_t p, Holds holds) {
  const auto trace = [p](double length) { return std::abs(length * length - static_cast<double>(p)); };
  const auto *now = norm.data_ptr<double>(), *then = before.data_ptr<double>();
  for (int64_t i = 0; i < norm.numel(); ++i) {
    if (!holds(trace(now[i]), trace(then[i]))) return false;
  }
  return true;
}

/// Whether l‖D‖_F of every matrix shows a step so short that rounding in the retraction cannot matter.
bool all_short(const at::Tensor& rate, const at::Tensor& length) {
  return (length * rate.to(at::kDouble)).max().item<double>() <= kShortStep;  // false for NaN
}

/// One batch: the step, and the old point and momentum for every matrix that must stay.
void step_batch(StepSlice& slice, const StepCounters& counters, const at::Tensor& rate, double momentum,
                double largest_defect, const std::function<void(const Descent&)>& move) {
  const int64_t p = slice.x.size(1);
  const bool on_cpu = slice.x.device().is_cpu();
  const double root = std::sqrt(static_cast<double>(p));
  const double farthest = kFarthestStart * root;
  const double largest = std::max(kLargestTrace, largest_defect * root);  // |tr E| ≤ √p‖E‖_F
  const auto before = frobenius(slice.x);
  at::Tensor near;  // undefined where all are
  if (!on_cpu || !all_hold(before, before, p, [&](double trace, double) { return trace <= farthest; })) {
    near = trace_of_drift(before, p) <= farthest;
  }
  const Gradients gradient(slice.g, near, counters);
  const bool keep = slice.m.defined();
  const auto old_x = slice.x.clone();
  const auto old_m = keep ? slice.m.clone() : at::Tensor();
  if (gradient.frozen.defined()) slice.x.copy_(gradient.clean(slice.x));  // it may hold anything
  if (keep) gradient.accumulate_(slice.m, slice.g, momentum, 1);          // M ← βM + G
  move({slice.x, keep ? slice.m : gradient.clean(slice.g), keep,
        spread(rate.expand({slice.x.size(0)}), slice.x)});

  // Where the retraction succeeds, |tr E| is rounding, or what it was where the method preserves it.
  // ‖D‖ ≤ β‖M‖ + ‖G‖, its normal part among it: E times that is in some methods' rounding.
  const bool measured =
      !on_cpu || !all_short(rate, keep ? frobenius(old_m) * momentum + gradient.norm : gradient.norm);
  at::Tensor after;
  if (!measured) {
    after = frobenius(slice.x);
    if (!gradient.frozen.defined() && all_hold(after, before, p, [largest](double trace, double old) {
          return trace <= std::max(largest, old + kRounding);
        })) {
      return;
    }
  }
  // False for NaN.
  const double most = largest_defect > 0 ? largest_defect : kLargestDefect * root;
  const auto holds =
      measured ? frobenius(drift(slice.x)) <=
                     frobenius(drift(gradient.clean(old_x))).add_(kAddedDefect).clamp_min_(most)
               : trace_of_drift(after, p) <= trace_of_drift(before, p).add_(kRounding).clamp_min_(largest);
  auto failed = holds.logical_not();
  if (gradient.frozen.defined()) failed.logical_and_(gradient.frozen.logical_not());
  count_skipped(failed, counters);
  const auto stay =
      (gradient.frozen.defined() ? failed.logical_or(gradient.frozen) : failed).view({-1, 1, 1});
  slice.x.copy_(at::where(stay, old_x, slice.x));
  if (keep) slice.m.copy_(at::where(stay, old_m, slice.m));
}

}  // namespace

void retraction_sgd_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                     const at::Tensor& skipped, const at::Tensor& off_manifold, const at::Tensor& rate,
                     double momentum, bool batched, double largest_defect,
                     const std::function<void(const Descent&)>& move) {
  run_step(points, momenta, gradients, rate, {skipped, off_manifold}, batched,
           [&](const StepMatrices& matrices, const StepCounters& counters) {
             for_each_batch(matrices, [&](StepSlice& slice) {
               step_batch(slice, counters, rate, momentum, largest_defect, move);
             });
           });
}

}  // namespace stiefel::detail
