#include "gradients.h"

#include <cmath>
#include <limits>
#include <mutex>

#include "algebra.h"

namespace stiefel::detail {

namespace {

std::mutex counting;  // slices on the CPU share the counter of skipped steps

}  // namespace

Gradients::Gradients(const at::Tensor& g, const at::Tensor& near, const StepCounters& counters)
    : Gradients(frobenius(g), g, near, counters) {}

Gradients::Gradients(const at::Tensor& length, const at::Tensor& like, const at::Tensor& near,
                     const StepCounters& counters)
    : norm(length) {
  const auto type = c10::toRealValueType(like.scalar_type());
  const double most =
      std::sqrt(type == at::kDouble ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max());
  auto may_move = norm <= most * 1e-4;  // false for NaN too
  if (near.defined()) may_move.logical_and_(near);
  if (like.device().is_cpu() && may_move.all().item<bool>()) return;
  frozen = may_move.logical_not();
  const std::lock_guard<std::mutex> alone(counting);
  counters.skipped.add_(frozen.sum());
  if (near.defined() && counters.off_manifold.defined()) {
    counters.off_manifold.add_(near.logical_not().sum());
  }
}

void count_skipped(const at::Tensor& which, const StepCounters& counters) {
  const std::lock_guard<std::mutex> alone(counting);
  counters.skipped.add_(which.sum());
}

at::Tensor Gradients::clean(const at::Tensor& matrices) const {
  return frozen.defined() && matrices.defined() ? matrices.masked_fill(frozen.view({-1, 1, 1}), 0) : matrices;
}

void Gradients::accumulate_(at::Tensor& m, const at::Tensor& g, double decay, double gain) const {
  if (frozen.defined()) {
    // `decay` for the matrices that move and 1 for the frozen ones.
    const auto real = g.options().dtype(c10::toRealValueType(g.scalar_type()));
    const auto factor = at::where(frozen, at::full({}, 1, real), at::full({}, decay, real)).view({-1, 1, 1});
    m.mul_(factor).add_(clean(g), gain);
  } else if (gain == 1) {
    at::add_out(m, g, m, decay);
  } else if (gain == 1 - decay) {
    m.lerp_(g, gain);
  } else {
    m.mul_(decay).add_(g, gain);
  }
}

}  // namespace stiefel::detail
