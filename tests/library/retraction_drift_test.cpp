#include <cmath>
#include <cstdio>

#include "retraction_cases.h"

// Float matrices under every retraction for 1,000 steps: what is left of their orthonormality.

namespace retraction_drift_test {

using at::Tensor;
using cases::Case;
using cases::haar;

using Gradient = std::function<Tensor(const Tensor& weight)>;

/// The largest defect over 1,000 steps in float.
double worst_defect(const Case& one, Tensor weight, const Gradient& gradient, double rate, double momentum,
                    int64_t steps = 1000) {
  const auto optimizer = one.sgd({weight}, rate, momentum, false);
  double worst = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    weight.mutable_grad() = gradient(weight);
    optimizer->step();
    if (step % 50 == 0 || step == 1) {
      const double defect = support::defect(weight);
      worst = std::isnan(defect) ? INFINITY : std::max(worst, defect);
    }
  }
  return worst;
}

/// What 1,000 steps may leave: four times what they left when it was measured, in units of √p.
struct Tolerance {
  const char* name;
  double walk;
  double hostile;
};

const std::vector<Tolerance> kTolerances{
    {"polar", 5e-6, 5e-6},        {"polar-ns", 1.6e-6, 1e-6}, {"qr", 1.4e-6, 1.2e-6},
    {"cholesky-qr", 8e-7, 8e-7},  {"wen-yin", 6e-6, 6e-4},    {"cayley-closed", 4e-5, 8e-5},
    {"cayley-exact", 5e-7, 2e-6},
};

const Tolerance& tolerance_of(const Case& one) {
  return *std::find_if(kTolerances.begin(), kTolerances.end(),
                       [&](const Tolerance& tolerance) { return one.name == tolerance.name; });
}

double root(int64_t p) { return std::sqrt(static_cast<double>(p)); }

TEST(RetractionDrift, RandomWalksStayOrthonormal) {
  struct Walk {
    std::vector<int64_t> shape;
    at::ScalarType type;
    double turn;  // l‖ξ‖
  };
  const std::vector<Walk> walks{
      {{16, 48}, at::kFloat, 0.4}, {{12, 12}, at::kFloat, 0.1}, {{20, 6}, at::kComplexFloat, 0.4}};
  const auto random = [](const Tensor& w) { return torch::randn_like(w); };
  for (const auto& one : cases::all()) {
    for (const double momentum : {0.0, 0.9}) {
      double worst = 0;
      for (const auto& walk : walks) {
        const auto weight = haar(walk.shape, walk.type);
        const auto xi = stiefel::project_tangent(weight, random(weight));
        const double reach = xi.abs().square().sum().sqrt().item<double>();
        // A momentum of random gradients is √(1/(1 − β²)) of one.
        const double rate = walk.turn / reach * std::sqrt(1 - momentum * momentum);
        const double defect = worst_defect(one, weight, random, rate, momentum);
        worst = std::max(worst, defect / root(std::min(walk.shape[0], walk.shape[1])));
      }
      std::printf("%-14s momentum %.1f: random walk %.1e·√p\n", one.name.c_str(), momentum, worst);
      EXPECT_LT(worst, tolerance_of(one).walk) << one.name << " momentum " << momentum;
    }
  }
}

/// The gradient of tr XᴴAX for rows x = Xᴴ, A with eigenvalues 30 ± ½: nearly all of it is normal to the
/// manifold, and lΣ = 1.2 at the rate 0.02.
Gradient hostile(int64_t n, at::ScalarType type) {
  const auto u = haar({n, n}, at::isComplexType(type) ? at::kComplexDouble : at::kDouble);
  const auto a = at::matmul(u * torch::linspace(29.5, 30.5, n, at::kDouble), u.mH()).to(type);
  return [a](const Tensor& x) { return 2 * at::matmul(x, a); };
}

TEST(RetractionDrift, GradientsWithALargeNormalPartDoNotPushThemOff) {
  for (const auto& one : cases::all()) {
    for (const double momentum : {0.0, 0.9}) {
      double worst = 0;
      for (const auto& [p, type] :
           std::vector<std::pair<int64_t, at::ScalarType>>{{8, at::kFloat}, {6, at::kComplexFloat}}) {
        const double defect = worst_defect(one, haar({p, 24}, type), hostile(24, type), 0.02, momentum);
        worst = std::max(worst, defect / root(p));
      }
      std::printf("%-14s momentum %.1f: large normal part %.1e·√p\n", one.name.c_str(), momentum, worst);
      EXPECT_LT(worst, tolerance_of(one).hostile) << one.name << " momentum " << momentum;
    }
  }
}

/// The defect that is left after 200 steps from a start 1e-4 off the manifold, over what it was.
double growth(const Case& one, at::ScalarType type, bool normal, double momentum) {
  const auto gradient =
      normal ? hostile(40, type) : Gradient([](const Tensor& w) { return torch::randn_like(w); });
  auto weight = haar({8, 40}, type);
  weight.add_(torch::randn_like(weight), 4e-6);
  weight.mul_(1 + 2e-5);
  const double before = support::defect(weight);
  EXPECT_NEAR(before, 1e-4, 5e-5);
  worst_defect(one, weight, gradient, normal ? 0.02 : 0.005, momentum, 200);
  return support::defect(weight) / before;
}

TEST(RetractionDrift, AStartOffTheManifoldIsDrawnInOrAtLeastKept) {
  for (const auto& one : cases::all()) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool normal : {false, true}) {
        SCOPED_TRACE(::testing::Message() << one.name << " momentum " << momentum << " hostile " << normal);
        if (one.repairs) {
          EXPECT_LT(growth(one, at::kFloat, normal, momentum), 0.1);
        } else {
          // An isometry keeps the defect. In double, where rounding adds nothing of its own, to the last
          // digits.
          EXPECT_NEAR(growth(one, at::kDouble, normal, momentum), 1, 1e-6);
        }
      }
    }
  }
}

}  // namespace retraction_drift_test
