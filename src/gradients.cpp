#include "gradients.h"

#include <cmath>
#include <limits>
#include <mutex>

#include "algebra.h"

namespace stiefel::detail {

namespace {

std::mutex counting;  // slices on the CPU share the counter of skipped steps

}  // namespace

Gradients::Gradients(const at::Tensor& g, const at::Tensor& skipped) : norm(frobenius(g)) {
  const auto type = c10::toRealValueType(g.scalar_type());
  const double most =
      std::sqrt(type == at::kDouble ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max());
  const auto sound = norm <= most * 1e-4;  // false for NaN too
  if (g.device().is_cpu() && sound.all().item<bool>()) return;
  kept = sound.logical_not();
  const std::lock_guard<std::mutex> alone(counting);
  skipped.add_(kept.sum());
}

at::Tensor Gradients::clean(const at::Tensor& g) const {
  return kept.defined() ? g.masked_fill(kept.view({-1, 1, 1}), 0) : g;
}

void Gradients::accumulate_(at::Tensor& m, const at::Tensor& g, double decay, double gain) const {
  if (kept.defined()) {
    // `decay` for the matrices that move and 1 for the kept.
    const auto real = g.options().dtype(c10::toRealValueType(g.scalar_type()));
    const auto factor = at::where(kept, at::full({}, 1, real), at::full({}, decay, real)).view({-1, 1, 1});
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
