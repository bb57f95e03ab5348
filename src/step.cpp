#include "step.h"

#include "algebra.h"

namespace stiefel::detail {

at::Tensor Pace::reach(int64_t batch) const {
  const auto rate = this->rate.to(at::kDouble);
  return scale.defined() ? rate / scale : rate.expand({batch});
}

at::Tensor Pace::signed_step(const at::Tensor& norm, const CayleyOptions& options) const {
  const auto rate = this->rate.to(at::kDouble);
  if (options.exact) return reach(norm.size(0)).neg();
  // α = min(l, 2q/(‖W‖ + ε)), where Cayley ADAM's W carries 1/r.
  const auto scaled = scale.defined() ? norm / scale : norm;
  const auto alpha = at::minimum(rate, 2 * options.q / (scaled + options.eps));
  return (scale.defined() ? alpha / scale : alpha).neg_();
}

at::Tensor& Batch::hold_(at::Tensor& coefficients) const {
  if (kept.defined()) coefficients.masked_fill_(kept.view({-1, 1, 1}), 0);
  return coefficients;
}

at::Tensor Batch::source() const { return kept.defined() ? x.masked_fill(kept.view({-1, 1, 1}), 0) : x; }

void Batch::advance_(const at::Tensor& source, const at::Tensor& f, const at::Tensor& c) {
  auto increment = at::bmm(f.mH(), source);
  increment.baddbmm_(c.mH(), m);
  x.add_(increment);
}

void step_(Batch& batch, const Pace& pace, const CayleyOptions& options) {
  if (!options.polish) return literal_step_(batch, pace, options);
  if (batch.x.size(1) == batch.x.size(2)) return square_step_(batch, pace, options);
  polished_step_(batch, pace, options);
}

}  // namespace stiefel::detail
