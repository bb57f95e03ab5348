#include "classification_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace stiefel::train {

namespace {

/// s_y as a column.
at::Tensor own_scores(const at::Tensor& scores, const at::Tensor& targets) {
  return scores.gather(1, targets.unsqueeze(1));
}

}  // namespace

std::vector<std::string> loss_names() { return {"cross-entropy", "offset-cross-entropy", "emma", "hinge"}; }

bool is_margin_loss(const std::string& name) { return name != "cross-entropy"; }

ClassificationLoss::ClassificationLoss(const Config& config, double input_factor)
    : name_(config.loss),
      temperature_(config.temperature.value_or(1)),
      margin_(std::sqrt(2.0) * input_factor * config.margin_radius.value_or(0)) {}

at::Tensor ClassificationLoss::operator()(const at::Tensor& scores, const at::Tensor& targets) const {
  if (name_ == "hinge") {
    const auto missing = (margin_ - own_scores(scores, targets) + scores).clamp_min(0);
    return missing.sum(1).mean() - margin_;  // j = y misses the whole margin
  }
  auto asked = scores;
  if (name_ == "offset-cross-entropy") {
    // (at::one_hot would look at the targets on the host.)
    asked = scores - at::zeros_like(scores).scatter(1, targets.unsqueeze(1), margin_);
  } else if (name_ == "emma") {
    asked = scores + (own_scores(scores, targets) - scores).clamp(0, margin_).detach();
  }
  return at::cross_entropy_loss(temperature_ == 1 ? asked : asked * temperature_, targets);
}

}  // namespace stiefel::train
