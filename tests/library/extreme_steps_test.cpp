#include <stiefel/retractions.h>
#include <stiefel/stiefel.h>

#include <cmath>
#include <vector>

#include "reference.h"
#include "tests/support.h"

// Steps whose size, or whose gradient's size, is far from any that makes sense: a matrix ends on the
// manifold, or it is left where it was and counted.

namespace extreme_steps_test {

using at::Tensor;
using Shape = std::vector<int64_t>;
using stiefel::CayleyAdam;
using stiefel::CayleyAdamOptions;
using stiefel::CayleyMuon;
using stiefel::CayleyMuonOptions;
using stiefel::CayleySGD;
using stiefel::CayleySGDOptions;
using stiefel::RetractionSGD;
using stiefel::RetractionSGDOptions;
using support::point;
using support::set_gradient;

double defect_per_column(const Tensor& weight) {
  double worst = 0;
  for (const auto& x : reference::tall(weight.detach(), weight.dim() == 3)) {
    const auto e = x.mH().mm(x) - torch::eye(x.size(1), x.options());
    worst = std::max(
        worst, e.abs().square().sum().sqrt().item<double>() / std::sqrt(static_cast<double>(x.size(1))));
  }
  return worst;
}

Tensor noise_like(const Tensor& weight, double length) {
  return torch::randn(weight.sizes(), weight.options().requires_grad(false)) * length;
}

TEST(ClosedForm, StaysOnTheManifoldAtAnyRate) {
  torch::manual_seed(1);
  for (const auto type : {at::kFloat, at::kDouble, at::kComplexFloat}) {
    const double most = type == at::kDouble ? 3e-8 : 7e-4;  // some times √u
    for (const auto& shape : {Shape{7, 7}, {5, 8}, {12, 40}, {6, 1}}) {
      for (const double rate : {1e1, 1e4, 1e8, 1e16}) {
        const auto weight = point(shape, type).requires_grad_();
        CayleySGD optimizer({weight}, CayleySGDOptions(rate).momentum(0.5).exact(true));
        for (int step = 0; step < 5; ++step) {
          set_gradient(weight, noise_like(weight, step % 2 == 0 ? 1 : 1e3));
          optimizer.step();
          EXPECT_LT(defect_per_column(weight), most) << type << at::IntArrayRef(shape) << " rate " << rate;
        }
      }
    }
  }
}

TEST(ClosedForm, TakesTheRateItselfUpToItsLimit) {
  torch::manual_seed(2);
  for (const double turn : {1e2, 5e3}) {  // u^(−¼) is 9.7e3 in double
    const auto x = point({6, 15}).detach();
    const auto g = noise_like(x, 1);
    const auto xt = x.t().contiguous();
    const auto w = reference::generator(xt, g.t());
    const double rate = turn / reference::norm_of(w, reference::Norm::kFrobenius);
    const auto expected = reference::closed_form(xt, w, -rate);
    const auto weight = x.clone().requires_grad_();
    CayleySGD optimizer({weight}, CayleySGDOptions(rate).exact(true));
    set_gradient(weight, g);
    optimizer.step();
    EXPECT_LT((weight.detach().t() - expected).abs().max().item<double>(), 1e-7) << turn;
  }
}

template <class Retraction>
void expect_undone_or_on_the_manifold(Retraction retraction, double most, int64_t& undone) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const auto& shape : {Shape{3, 3}, {4, 9}, {16, 20}}) {
      for (const double momentum : {0.0, 0.9}) {
        for (const double length : {1.0, 1e2, 1e4, 1e7, 1e13}) {
          const auto weight = point(shape, type).requires_grad_();
          auto options = RetractionSGDOptions<Retraction>(1).momentum(momentum);
          options.retraction(retraction);
          RetractionSGD<Retraction> optimizer({weight}, options);
          for (int step = 0; step < 2; ++step) {
            const auto before = weight.detach().clone();
            set_gradient(weight, noise_like(weight, length));
            const auto skipped = optimizer.skipped_steps();
            optimizer.step();
            const auto left = optimizer.skipped_steps() - skipped;
            undone += left;
            EXPECT_TRUE(left == 0 || weight.detach().equal(before));
            EXPECT_LT(defect_per_column(weight), most)
                << Retraction::kName << type << at::IntArrayRef(shape) << ' ' << momentum << ' ' << length;
          }
        }
      }
    }
  }
}

TEST(FarRetractions, EndOnTheManifoldOrAreUndoneAndCounted) {
  torch::manual_seed(3);
  stiefel::Polar newton_schulz;
  newton_schulz.by = stiefel::Polar::By::kNewtonSchulz;
  stiefel::Qr cholesky;
  cholesky.by = stiefel::Qr::By::kCholesky;
  int64_t undone = 0;
  expect_undone_or_on_the_manifold(stiefel::Polar(), 1e-5, undone);
  expect_undone_or_on_the_manifold(stiefel::Qr(), 1e-5, undone);
  EXPECT_EQ(undone, 0);
  expect_undone_or_on_the_manifold(stiefel::CayleyExact(), 8e-4, undone);
  EXPECT_EQ(undone, 0);
  expect_undone_or_on_the_manifold(newton_schulz, 8e-4, undone);
  expect_undone_or_on_the_manifold(cholesky, 8e-4, undone);
  expect_undone_or_on_the_manifold(stiefel::WenYin(), 8e-4, undone);
  expect_undone_or_on_the_manifold(stiefel::CayleyClosed(), 8e-4, undone);
  expect_undone_or_on_the_manifold(stiefel::Pogo(), 0.26, undone);
  EXPECT_GT(undone, 0);
}

TEST(TinyGradients, WithoutEpsTurnAsOthersDo) {
  torch::manual_seed(4);
  for (const bool exact : {false, true}) {
    for (const auto& shape : {Shape{3, 3}, {4, 9}, {1, 8}, {8, 12}}) {
      // M/r is the same whatever the size of G, so X is.
      Tensor moved;
      for (const double length : {1.0, 0x1p-40, 0x1p-60, 0x1p-70}) {
        torch::manual_seed(5);
        const auto weight = point(shape, at::kFloat).requires_grad_();
        CayleyAdam optimizer({weight}, CayleyAdamOptions(0.3).eps(0).exact(exact));
        for (int step = 0; step < 3; ++step) {
          set_gradient(weight, noise_like(weight, length));
          optimizer.step();
        }
        EXPECT_LT(defect_per_column(weight), 1e-5) << at::IntArrayRef(shape) << length;
        if (!moved.defined()) moved = weight.detach().clone();
        const double gap = (weight.detach() - moved).abs().max().item<double>();
        EXPECT_LT(gap, length < 0x1p-61 ? 2e-2 : 1e-5)
            << at::IntArrayRef(shape) << length;  // squares of 2^−70 are denormal
      }
    }
  }
}

TEST(Muon, StaysOnTheManifoldWithDenormalMomenta) {
  torch::manual_seed(6);
  for (const auto type : {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const bool is_double = c10::toRealValueType(type) == at::kDouble;
    for (const auto& shape : {Shape{3, 3}, {2, 5}, {12, 3}, {20, 4}}) {
      for (const double ulps : {1.0, 30.0, 1e4}) {
        const auto weight = point(shape, type).requires_grad_();
        CayleyMuon optimizer({weight}, CayleyMuonOptions(0.2).momentum(0.9));
        for (int step = 0; step < 4; ++step) {
          set_gradient(weight, noise_like(weight, ulps * (is_double ? 5e-324 : 1.5e-45)));
          optimizer.step();
          EXPECT_LT(defect_per_column(weight), 2e-4) << type << at::IntArrayRef(shape) << ulps;
        }
      }
    }
  }
}

// The bound that decides on the second look was not a number where one matrix of a batch had no momentum.
TEST(Muon, LooksAgainBesideAMatrixWithoutAMomentum) {
  torch::manual_seed(7);
  const auto weight = point({2, 12, 15}, at::kFloat, true).requires_grad_();
  CayleyMuon optimizer({weight}, CayleyMuonOptions(0.4).batched(true).rounds(3));
  const auto x = weight.detach();
  auto g = 0.01 * x + 1e-8 * noise_like(weight, 1);
  g[1].zero_();
  set_gradient(weight, g);
  optimizer.step();
  EXPECT_LT(defect_per_column(weight), 1e-4);
}

// Of a gradient that is normal but for rounding, the projection leaves rounding: mostly normal where p ≈ n.
TEST(NormalGradients, AreProjectedUntilWhatIsLeftIsTangent) {
  torch::manual_seed(8);
  for (const double noise : {0.0, 1e-9, 1e-7}) {
    for (const double q : {0.5, 0.99}) {
      for (const auto& shape : {Shape{2, 3}, {9, 10}, {9, 34}}) {
        for (const bool exact : {false, true}) {
          const auto weight = point(shape, at::kFloat).requires_grad_();
          CayleySGD optimizer({weight}, CayleySGDOptions(10).q(q).exact(exact));
          for (int step = 0; step < 4; ++step) {
            set_gradient(weight, 1e12 * (weight.detach() + noise * noise_like(weight, 1)));
            optimizer.step();
            EXPECT_LT(defect_per_column(weight), 5e-4)
                << at::IntArrayRef(shape) << noise << ' ' << q << exact;
          }
        }
      }
    }
  }
}

TEST(ToTheLetter, LeavesAndCountsWhatWouldNotBeFinite) {
  torch::manual_seed(9);
  int64_t left = 0;
  for (const auto norm : {stiefel::Norm::kFrobenius, stiefel::Norm::kSpectral, stiefel::Norm::kOne}) {
    for (const auto& shape : {Shape{1, 9}, {3, 40}, {10, 2}, {4, 5}}) {
      const auto weight = point(shape, at::kFloat).requires_grad_();
      CayleySGD optimizer({weight}, CayleySGDOptions(100).momentum(0.9).q(0.99).polish(false).norm(norm));
      for (int step = 0; step < 60; ++step) {
        const auto before = weight.detach().clone();
        set_gradient(weight, 1e13 * (weight.detach() + 1e-6 * noise_like(weight, 1)));
        const auto skipped = optimizer.skipped_steps();
        optimizer.step();
        ASSERT_TRUE(at::isfinite(weight.detach()).all().item<bool>()) << at::IntArrayRef(shape) << step;
        if (optimizer.skipped_steps() > skipped) {
          ++left;
          ASSERT_TRUE(weight.detach().equal(before));
        }
      }
    }
  }
  // A point from which every step leaves the range.
  const auto far = (point({3, 8}, at::kFloat).detach() * 1e18).requires_grad_();
  CayleySGD optimizer({far}, CayleySGDOptions(0.1).polish(false).orthonormalize_on_start(false));
  const auto before = far.detach().clone();
  set_gradient(far, noise_like(far, 1e14));
  optimizer.step();
  EXPECT_EQ(optimizer.skipped_steps(), 1);
  EXPECT_TRUE(far.detach().equal(before));
}

}  // namespace extreme_steps_test
