#include "certificate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace stiefel::train {

namespace {

// A radius is infinite where rows of the head are equal; this is longer than any image.
constexpr double kLongest = 1e6;

constexpr double kUnitRoundoff = std::numeric_limits<double>::epsilon() / 2;

/// γ_n = nu/(1 − nu): the relative error of a sum of n products in any order (Higham, Accuracy and Stability
/// of Numerical Algorithms, 2002, §3.1).
double gamma(int64_t n) {
  const double nu = static_cast<double>(n) * kUnitRoundoff;
  return nu / (1 - nu);
}

at::Tensor as_matrix(const at::Tensor& weight) {
  return weight.detach().to(at::kCPU, at::kDouble).reshape({weight.size(0), -1});
}

const models::LipschitzNetwork& lipschitz_part(const PixelNetwork& network) {
  const auto* found = dynamic_cast<const models::LipschitzNetwork*>(&network.network());
  if (found == nullptr) {
    throw std::invalid_argument("a certificate needs a Lipschitz-bounded network (lip-D-W or lip-mlp-DxW)");
  }
  return *found;
}

}  // namespace

double spectral_norm_bound(const at::Tensor& weight) {
  auto w = as_matrix(weight);
  if (!w.isfinite().all().item<bool>()) return std::numeric_limits<double>::infinity();
  if (w.size(0) > w.size(1)) w = w.t().contiguous();  // WᵀW has the same eigenvalues but for zeros
  const auto defect = at::matmul(w, w.t()) - at::eye(w.size(0), w.options());
  const auto eigenvalues = at::linalg_eigvalsh(defect);
  // ‖W‖₂² = 1 + λ_max(WWᵀ − I). The product and the solver are backward stable: what they leave is far below
  // γ of a few times p + n, relative to ‖WWᵀ‖_F ≥ 1.
  const double square = 1 + eigenvalues.max().item<double>();
  const double slack = gamma(8 * (w.size(0) + w.size(1))) * w.square().sum().item<double>();
  return std::sqrt(std::max(square, 0.0) + slack);
}

void require_certifiable(const std::string& model) {
  if (models::is_lipschitz(model)) return;
  throw std::invalid_argument(fmt::format(
      "nothing can be certified of {}: how far its scores move with an image is not bounded by its "
      "weights; train --model lip-D-W or lip-mlp-DxW (lip-6-64) for that",
      model));
}

Certificate::Certificate(const PixelNetwork& network) : network_(network), layers_(lipschitz_part(network)) {
  if (network.mean().scalar_type() != at::kDouble) {
    throw std::invalid_argument("a certificate needs the network in float64");
  }
  input_factor_ = 1 / network.deviation().min().item<double>();
  lipschitz_ = input_factor_;
  const auto mixings = layers_.mixings();
  for (size_t i = 0; i + 1 < mixings.size(); ++i) lipschitz_ *= spectral_norm_bound(mixings[i].weight);
  // What is left of rounding in the numbers of this class itself.
  lipschitz_ *= 1 + gamma(64 + static_cast<int64_t>(mixings.size()));
  const auto head = as_matrix(mixings.back().weight);
  pair_distances_ = (head.unsqueeze(1) - head.unsqueeze(0)).norm(2, -1) * (1 + gamma(2 * head.size(1)));
  pair_distances_ = pair_distances_.to(network.mean().device());
}

double Certificate::rounding(double length) const {
  // A mixing whose input x̃ is off by e computes W x̃ + b with an error of at most γ(‖|W|‖₂‖x̃‖ + ‖b‖) of its
  // own, and ‖|W|‖₂ ≤ ‖W‖_F. Folds, shifts and the like are exact, and carry e on without stretching it.
  double x = length * (1 + gamma(4));
  double error = gamma(4) * (length + input_factor_ * std::sqrt(3.0 * 1024));  // of the normalisation
  for (const auto& mixing : layers_.mixings()) {
    const auto w = as_matrix(mixing.weight);
    const double norm = spectral_norm_bound(mixing.weight);
    const double b = mixing.bias.detach().norm().item<double>();
    const double own = gamma(w.size(1) + 4) * (w.norm().item<double>() * (x + error) + b);
    error = norm * error + own;
    x = norm * x + b;
  }
  return error;
}

Certified Certificate::certify(const at::Tensor& pixels) const {
  const at::NoGradGuard no_grad;
  const auto scores = network_(pixels);
  const auto [best, predicted] = scores.max(1);
  const auto own = predicted.unsqueeze(1);
  const auto gaps = best.unsqueeze(1) - scores;
  const auto infinite = std::numeric_limits<double>::infinity();
  const auto margin = std::get<0>(gaps.scatter(1, own, infinite).min(1));
  const auto slopes = lipschitz_ * pair_distances_.index_select(0, predicted);
  // The scores are computed twice: of the image, and of the perturbed one, which is at most as far away as
  // the radius without rounding. A pair of scores is off by √2 times their error at most.
  const auto reach = std::get<0>((gaps / slopes).scatter(1, own, infinite).min(1)).max().item<double>();
  const auto normalized = (pixels - network_.mean()) / network_.deviation();
  const double longest = normalized.flatten(1).norm(2, 1).max().item<double>();
  const double off = 2 * std::sqrt(2.0) * rounding(longest + input_factor_ * reach);
  const auto radii = ((gaps - off) / slopes).scatter(1, own, infinite);
  // (NaN scores certify nothing.)
  const auto radius = std::get<0>(radii.min(1)).clamp(0, kLongest).nan_to_num(0);
  return {predicted, margin.nan_to_num(0), radius};
}

}  // namespace stiefel::train
