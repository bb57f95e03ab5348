#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cmath>

#include "reference.h"

// Theorem 1 of the paper: the iteration contracts to the closed-form Cayley transform while α‖W‖ < 2, and s
// rounds leave an error of the order α^(s+2). Without the corrections, which the theorem does not know.

namespace theorem_test {

using at::Tensor;
using stiefel::Norm;

/// Where CayleySGD without momentum takes the point x (n×p) with the rate α.
Tensor library_step(const Tensor& x, const Tensor& g, double alpha, int64_t rounds, double q, Norm norm) {
  auto weight = x.mH().resolve_conj().clone();
  weight.mutable_grad() = g.mH().resolve_conj();
  auto options = stiefel::CayleySGDOptions(alpha);
  options.iterations(rounds).q(q).norm(norm).polish(false);
  stiefel::CayleySGD(std::vector<Tensor>{weight}, options).step();
  return weight.mH();
}

double distance(const Tensor& a, const Tensor& b) {
  return (a - b).abs().square().sum().sqrt().item<double>();
}

/// The slope of the least-squares line through (x, y).
double slope(const std::vector<double>& x, const std::vector<double>& y) {
  double mx = 0, my = 0, xy = 0, xx = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mx += x[i] / static_cast<double>(x.size());
    my += y[i] / static_cast<double>(x.size());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
  }
  return xy / xx;
}

TEST(Theorem1, TheErrorIsOfOrderSPlusTwo) {
  for (const auto type : {at::kDouble, at::kComplexDouble}) {
    for (const auto& shape : {std::vector<int64_t>{6, 40}, {6, 8}, {6, 6}, {1, 5}}) {
      const auto x = reference::tall(reference::orthonormal_weight(shape, false, type), false)[0];
      const auto g = torch::randn_like(x);
      const auto w = reference::generator(x, -g);
      const double norm = reference::norm_of(w, reference::Norm::kFrobenius);
      for (int64_t s = 0; s <= 4; ++s) {
        std::vector<double> log_alpha, log_error;
        for (double turn = 0.3; turn > 0.03; turn *= 0.75) {  // α‖W‖_F, below the cap of 1
          const double alpha = turn / norm;
          const auto y = library_step(x, g, alpha, s, 0.5, Norm::kFrobenius);
          log_alpha.push_back(std::log(alpha));
          log_error.push_back(std::log(distance(y, reference::closed_form(x, w, alpha))));
        }
        EXPECT_NEAR(slope(log_alpha, log_error), static_cast<double>(s + 2), 0.1)
            << type << " " << shape << " s " << s;
      }
    }
  }
}

/// The error after s rounds is at most (α‖W‖₂/2)^s of the first, all the way to the closed form.
void expect_contraction(const Tensor& x, const Tensor& g, double alpha, double q, Norm norm) {
  const auto w = reference::generator(x, -g);
  const double factor = alpha / 2 * reference::norm_of(w, reference::Norm::kSpectral);
  ASSERT_LT(factor, 1);
  const auto limit = reference::closed_form(x, w, alpha);
  const double first = distance(library_step(x, g, alpha, 0, q, norm), limit);
  ASSERT_GT(first, 1e-3);
  double before = first;
  int64_t s = 1;
  for (; before > 1e-9 * first && s <= 900; s += (s < 8 ? 1 : s / 4)) {
    const double error = distance(library_step(x, g, alpha, s, q, norm), limit);
    EXPECT_LT(error, before) << "s " << s << " factor " << factor;
    EXPECT_LE(error, std::pow(factor, static_cast<double>(s)) * first * (1 + 1e-6) + 1e-12) << "s " << s;
    before = error;
  }
  EXPECT_LT(before, 1e-3 * first) << "after " << s << " rounds with the factor " << factor;
}

TEST(Theorem1, TheIterationContractsBelowTwo) {
  for (const auto type : {at::kDouble, at::kComplexDouble}) {
    for (const auto& shape : {std::vector<int64_t>{6, 40}, {6, 8}, {6, 6}, {1, 5}}) {
      const auto x = reference::tall(reference::orthonormal_weight(shape, false, type), false)[0];
      const auto g = torch::randn_like(x);
      const double norm = reference::norm_of(reference::generator(x, g), reference::Norm::kFrobenius);
      SCOPED_TRACE(::testing::Message() << type << " " << shape);
      for (const double turn : {0.5, 1.0, 1.9}) expect_contraction(x, g, turn / norm, 0.96, Norm::kFrobenius);
    }
  }
}

TEST(Theorem1, TheIterationContractsUpToTwoInTheSpectralNorm) {
  // ‖W‖_F is well above ‖W‖₂ for most matrices, so α‖W‖₂ comes near 2 only for special ones.
  {
    // Complex, W = iw vvᴴ of rank one: both norms are w.
    const auto x =
        reference::tall(reference::orthonormal_weight({4, 9}, false, at::kComplexDouble), false)[0];
    const auto v = torch::randn({4, 1}, at::kComplexDouble);
    const auto g = x.mm(v.mm(v.mH())) * c10::complex<double>(0, 1);
    const double norm = reference::norm_of(reference::generator(x, g), reference::Norm::kSpectral);
    for (const double turn : {1.5, 1.9, 1.98}) expect_contraction(x, g, turn / norm, 0.995, Norm::kFrobenius);
  }
  {
    // Real, W a set of turns in the coordinate planes: its column sums are the angles, so the 1-norm is ‖W‖₂.
    const auto x = torch::eye(6, 3, at::kDouble);
    auto g = torch::zeros({6, 3}, at::kDouble);
    g[3][0] = 1;
    g[4][1] = 0.7;
    g[5][2] = -0.2;
    for (const double turn : {1.5, 1.9, 1.98}) expect_contraction(x, g, turn, 0.995, Norm::kOne);
  }
}

TEST(Theorem1, TheCapKeepsAnyRateContracting) {
  // A rate far too large becomes α = 2q/(‖W‖ + ε), whose closed form the iteration still finds.
  const double q = 0.9;
  for (const auto type : {at::kDouble, at::kComplexDouble}) {
    const auto x = reference::tall(reference::orthonormal_weight({5, 12}, false, type), false)[0];
    const auto g = torch::randn_like(x);
    const auto w = reference::generator(x, -g);
    const double alpha = 2 * q / (reference::norm_of(w, reference::Norm::kFrobenius) + 1e-8);
    const auto y = library_step(x, g, 1e6, 400, q, Norm::kFrobenius);
    EXPECT_LT(distance(y, reference::closed_form(x, w, alpha)), 1e-12);
  }
}

}  // namespace theorem_test
