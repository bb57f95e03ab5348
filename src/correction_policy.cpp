#include "correction_policy.h"

#include <algorithm>
#include <cmath>

#include "algebra.h"
#include "exit_correction.h"

namespace stiefel::detail {

namespace {

double largest(const at::Tensor& values) { return values.max().item<double>(); }

}  // namespace

CorrectionPolicy::CorrectionPolicy(const at::Tensor& x, const at::Tensor& e, const at::Tensor& reach)
    : may_look_(x.device().is_cpu()),
      roundoff_(unit_roundoff(x)),
      tolerance_(roundoff_ * std::sqrt(static_cast<double>(x.size(1)))),
      reach_(reach) {
  if (may_look_) drift_ = frobenius(e);
}

bool CorrectionPolicy::entry_shows(const at::Tensor& s) const {
  return !may_look_ || !(largest(reach_ * drift_ * frobenius(s)) <= tolerance_);  // NaN shows
}

bool CorrectionPolicy::drift_shows(const at::Tensor& tau, const at::Tensor& norm) const {
  return !may_look_ || !(largest(drift_ * (tau * norm).abs_().clamp_max_(2)) <= tolerance_);
}

bool CorrectionPolicy::second_look(const at::Tensor& length) const {
  return !may_look_ || !(largest(reach_ * length) * roundoff_ <= 1.7 * tolerance_);
}

int64_t CorrectionPolicy::series_pairs(const at::Tensor& bound, int64_t otherwise) const {
  if (!may_look_) return otherwise;
  const double b = largest(bound);
  if (b <= 4 * tolerance_) return 0;
  // The first term left out is below 0.3 b^(2·pairs + 1). All of them where the bound is not a number.
  int64_t pairs = 1;
  while (pairs < kMostPairs && !(0.3 * std::pow(b, 2 * pairs + 1) <= roundoff_)) ++pairs;
  return pairs;
}

}  // namespace stiefel::detail
