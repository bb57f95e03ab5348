#include "step.h"

#include <cmath>

#include "algebra.h"

namespace stiefel::detail {

at::Tensor StepSize::reach(int64_t batch) const {
  const auto rate = this->rate.to(at::kDouble);
  return scale.defined() ? rate / scale : rate.expand({batch});
}

bool StepSize::wants_units(const CayleyOptions& options) const {
  // r is at least about √ε/10: where ‖M‖² vanishes in float, M/r is below 1e-8.
  return scale.defined() && options.eps < 1e-20;
}

StepSize StepSize::in_units(const at::Tensor& unit) const {
  return {rate, scale.defined() ? scale * unit : unit};
}

at::Tensor StepSize::signed_step(const at::Tensor& norm, double exact_turn,
                                 const CayleyOptions& options) const {
  const auto rate = this->rate.to(at::kDouble);
  if (options.exact) return at::minimum(reach(norm.size(0)), exact_turn / norm).neg_();
  // α = min(l, 2q/(‖W‖ + ε)), where Cayley ADAM's W carries 1/r.
  const auto scaled = scale.defined() ? norm / scale : norm;
  const auto alpha = at::minimum(rate, 2 * options.q / (scaled + options.eps));
  return (scale.defined() ? alpha / scale : alpha).neg_();
}

double largest_exact_turn(const at::Tensor& like) { return std::pow(unit_roundoff(like), -0.25); }

at::Tensor& StepBatch::hold_(at::Tensor& coefficients) const {
  if (frozen.defined()) coefficients.masked_fill_(frozen.view({-1, 1, 1}), 0);
  return coefficients;
}

at::Tensor StepBatch::source() const {
  return frozen.defined() ? x.masked_fill(frozen.view({-1, 1, 1}), 0) : x;
}

void StepBatch::advance_(const at::Tensor& source, const at::Tensor& f, const at::Tensor& d,
                         const at::Tensor& c) {
  auto increment = at::bmm(f.mH(), source);
  increment.baddbmm_(c.mH(), d);
  x.add_(increment);
}

void step_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options,
           const PolarOptions* polar) {
  TORCH_INTERNAL_ASSERT(options.polish || polar == nullptr);
  if (!options.polish) return literal_step_(batch, step_size, options);
  if (batch.x.size(1) == batch.x.size(2)) return square_step_(batch, step_size, options, polar);
  polished_step_(batch, step_size, options, polar);
}

}  // namespace stiefel::detail
