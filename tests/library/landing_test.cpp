#include <cmath>
#include <cstdio>

#include "retraction_cases.h"

// POGO and landing: how far off the manifold they leave a matrix, and what they find. Their trajectories are
// tested beside the retractions', in retraction_sgd_test.cpp.

namespace landing_test {

using at::Tensor;
using cases::haar;
using cases::kTypes;
using cases::real_dot;
using stiefel::Landing;
using stiefel::Pogo;
using stiefel::RetractionSGD;
using stiefel::RetractionSGDOptions;

template <class Policy>
RetractionSGD<Policy> optimizer_of(const std::vector<Tensor>& weights, double rate, double momentum,
                                   Policy policy = {}) {
  return {weights, RetractionSGDOptions<Policy>(rate).momentum(momentum).retraction(policy)};
}

double length(const Tensor& t) { return t.abs().square().sum().sqrt().item<double>(); }

/// One matrix of every shape, tall as the reference wants it, and its weight.
const std::vector<std::vector<int64_t>> kShapes{{4, 11}, {11, 4}, {6, 6}, {1, 7}, {7, 1}, {5, 8}};

Tensor tall(const Tensor& weight) { return reference::tall(weight, false)[0]; }

TEST(Landing, CutsItsStepsAsTheBoundSays) {
  // Steps short and long, so that the rate, 1/(2λ) and ε each decide in turn, from points that are off.
  for (const auto type : kTypes) {
    for (const auto& shape : kShapes) {
      for (const Landing& options : {Landing{}, Landing{3, 0.05}, Landing{0.2, 0.3}}) {
        int cut = 0, whole = 0;
        for (const double rate : {0.01, 0.1, 1.0, 10.0}) {
          for (const double momentum : {0.0, 0.9}) {
            const auto weight = support::point(shape, type);
            auto optimizer = optimizer_of({weight}, rate, momentum, options);
            auto x = tall(weight), m = torch::zeros_like(x);
            for (int step = 0; step < 10; ++step) {
              support::randomize_gradients({weight}, 0.5);
              const auto g = tall(weight.grad());
              m = cases::project(x, momentum * m + g);
              const auto landed = cases::land(x, momentum == 0 ? g : m, rate, options);
              x = landed.x;
              (landed.cut ? cut : whole)++;
              optimizer.step();
            }
            EXPECT_LT(support::distance(tall(weight), x), 1e-11)
                << type << " " << shape << " rate " << rate << " momentum " << momentum;
            EXPECT_EQ(optimizer.skipped_steps(), 0);
          }
        }
        EXPECT_GT(cut, 10) << shape;
        EXPECT_GT(whole, 10) << shape;
      }
    }
  }
}

TEST(Landing, LeavesTheManifoldByEpsilonAtMost) {
  double farthest = 0;
  for (const auto type : {at::kFloat, at::kComplexFloat, at::kDouble}) {
    for (const auto& shape : kShapes) {
      for (const Landing& options : {Landing{}, Landing{3, 0.05}}) {
        for (const double momentum : {0.0, 0.9}) {
          const auto weight = support::point(shape, type);
          auto optimizer = optimizer_of({weight}, 0.4, momentum, options);
          double worst = 0, moved = 0;
          for (int step = 0; step < 100; ++step) {
            const auto before = support::copy_of(weight);
            support::randomize_gradients({weight}, std::pow(10.0, step % 7 - 2));  // of all sizes
            if (step % 3 == 2) {  // nearly all of it along the normal
              support::set_gradient(weight, 30 * weight.detach() + 0.1 * weight.grad());
            }
            optimizer.step();
            worst = std::max(worst, support::defect(weight));
            moved = std::max(moved, support::distance(weight, before));
          }
          EXPECT_LE(worst, options.epsilon) << type << " " << shape << " momentum " << momentum;
          EXPECT_GT(worst, 0.5 * options.epsilon) << "it never came near its bound: " << type << " " << shape;
          EXPECT_GT(moved, 1e-2) << type << " " << shape;
          EXPECT_EQ(optimizer.skipped_steps(), 0);
          farthest = std::max(farthest, worst);
        }
      }
    }
  }
  std::printf("landing's largest defect under hostile gradients: %.4f\n", farthest);
}

TEST(Landing, AGradientAlongTheNormalAloneLeavesItWithinEpsilon) {
  // Of X·A with A near 300·I hardly anything is tangent, of a square nothing: what is computed is rounding,
  // of which a rate this large would make a long step.
  for (const auto type : {at::kFloat, at::kComplexFloat, at::kDouble}) {
    for (const auto& shape : kShapes) {
      for (const double momentum : {0.0, 0.9}) {
        const auto weight = support::point(shape, type);
        auto optimizer = optimizer_of<Landing>({weight}, 0.2, momentum);
        const auto eigenvalues =
            torch::linspace(299.5, 300.5, shape[1], type == at::kDouble ? at::kDouble : at::kFloat);
        double worst = 0;
        for (int step = 0; step < 50; ++step) {
          support::set_gradient(weight, weight.detach() * eigenvalues * std::pow(10.0, step % 12));
          optimizer.step();
          worst = std::max(worst, support::defect(weight));
        }
        EXPECT_LE(worst, Landing{}.epsilon) << type << " " << shape << " momentum " << momentum;
        EXPECT_EQ(optimizer.skipped_steps(), 0);
      }
    }
  }
}

TEST(Landing, WithoutAGradientItLands) {
  for (const auto type : kTypes) {
    for (const auto& shape : kShapes) {
      auto weight = support::point(shape, type);
      auto optimizer = optimizer_of<Landing>({weight}, 0.1, 0);
      weight.detach().mul_(std::sqrt(1 + 0.4 / std::sqrt(static_cast<double>(tall(weight).size(1)))));
      const double start = support::defect(weight);
      EXPECT_NEAR(start, 0.4, 1e-9);
      double last = start;
      for (int step = 0; step < 200; ++step) {
        support::set_gradient(weight, torch::zeros_like(weight));
        optimizer.step();
        const double now = support::defect(weight);
        if (step < 50) {
          // (1 − ηλ(s − 1))²s of each s = σ²: near the manifold a factor of 1 − 2ηλ.
          ASSERT_LT(now, 0.82 * last);
          ASSERT_GT(now, 0.6 * last);
        }
        last = now;
      }
      EXPECT_LT(last, 1e-14 * 10);
    }
  }
}

TEST(Landing, AStartWithinEpsilonIsLeftAsItIsAndOneBeyondIsNot) {
  const auto near = support::point({5, 9});
  near.detach().mul_(std::sqrt(1 + 0.3 / std::sqrt(5.0)));
  const auto before = support::copy_of(near);
  auto first = optimizer_of<Landing>({near}, 0.1, 0);
  EXPECT_TRUE(torch::equal(near, before));
  support::Warnings warnings;
  auto second = optimizer_of<Landing>({near}, 0.1, 0, {1, 0.2});
  EXPECT_LT(support::defect(near), 1e-13);
  EXPECT_NE(warnings.text().find("not orthonormal"), std::string::npos) << warnings.text();
}

TEST(Landing, FromBeyondEpsilonItComesBack) {
  const auto weight = support::point({5, 9});
  auto optimizer = optimizer_of<Landing>({weight}, 0.2, 0, {1, 0.1});
  weight.detach().mul_(std::sqrt(1 + 0.45 / std::sqrt(5.0)));
  double last = support::defect(weight);
  EXPECT_NEAR(last, 0.45, 1e-9);
  for (int step = 0; step < 60; ++step) {
    support::randomize_gradients({weight}, 0.3);
    optimizer.step();
    const double now = support::defect(weight);
    EXPECT_LT(now, std::max(last, 0.1));
    last = now;
  }
  EXPECT_LE(last, 0.1);
  EXPECT_EQ(optimizer.skipped_steps(), 0);
}

TEST(Landing, AMatrixThatIsTooFarOffIsCounted) {
  // One direction longer and one as much shorter: ‖X‖ does not show it, but E does.
  const auto weight = support::point({40, 60});
  auto optimizer = optimizer_of<Landing>({weight}, 0.2, 0.9);
  weight.detach()[0].mul_(std::sqrt(1.9));
  weight.detach()[1].mul_(std::sqrt(0.1));
  const auto before = support::copy_of(weight);
  support::randomize_gradients({weight});
  optimizer.step();
  EXPECT_TRUE(torch::equal(weight, before));
  EXPECT_EQ(optimizer.skipped_steps(), 1);
}

TEST(Pogo, LeavesWhatTheNormalStepDoesNotTakeOff) {
  // E = −¾V² + ¼V³ with V = YᴴY − I = l²ξᴴξ from a point on the manifold.
  for (const auto type : kTypes) {
    for (const auto& shape : kShapes) {
      for (const double turn : {0.03, 0.2, 0.5}) {
        const auto weight = support::point(shape, type);
        support::randomize_gradients({weight}, 1);
        const auto x = tall(weight);
        const auto xi = cases::relative(x, tall(weight.grad()));
        const double rate = turn / std::max(length(xi), 1e-3);  // a real 1×n has none for n = 1 alone
        auto optimizer = optimizer_of<Pogo>({weight}, rate, 0);
        optimizer.step();
        const auto v = rate * rate * xi.mH().mm(xi);
        EXPECT_LT(support::distance(cases::gram_error(tall(weight)), -0.75 * v.mm(v) + 0.25 * v.mm(v).mm(v)),
                  1e-13)
            << type << " " << shape << " turn " << turn;
        EXPECT_EQ(optimizer.skipped_steps(), 0);
      }
    }
  }
}

TEST(Pogo, DoesNotDrift) {
  for (const auto type : {at::kFloat, at::kComplexFloat}) {
    for (const double momentum : {0.0, 0.9}) {
      for (const double turn : {0.01, 0.1, 0.3}) {
        const auto weight = haar({16, 48}, type).requires_grad_();
        const double reach = length(stiefel::project_tangent(weight, torch::randn_like(weight)));
        const double rate = turn / reach * std::sqrt(1 - momentum * momentum);
        auto optimizer = optimizer_of<Pogo>({weight}, rate, momentum);
        double worst = 0, end = 0;
        for (int step = 1; step <= 1000; ++step) {
          support::randomize_gradients({weight}, 1);
          optimizer.step();
          if (step % 50 == 0) worst = std::max(worst, end = support::defect(weight));
        }
        // ¾‖V‖² ≤ ¾(l‖ξ‖)⁴, and the rounding of one step.
        std::printf("POGO, l‖ξ‖ about %.2f, momentum %.1f: defect %.1e\n", turn, momentum, worst);
        EXPECT_LT(worst, 0.75 * std::pow(1.5 * turn, 4) + 4e-6) << type << " " << momentum << " " << turn;
        EXPECT_EQ(optimizer.skipped_steps(), 0);
      }
    }
  }
}

TEST(Pogo, DrawsAStartInQuadratically) {
  for (const auto type : kTypes) {
    const auto weight = support::point({6, 14}, type);
    auto optimizer = optimizer_of<Pogo>({weight}, 1e-4, 0);
    weight.detach().mul_(std::sqrt(1 + 0.2 / std::sqrt(6.0)));
    double last = support::defect(weight);
    EXPECT_NEAR(last, 0.2, 1e-9);
    for (int step = 0; step < 5; ++step) {
      support::randomize_gradients({weight});
      optimizer.step();
      EXPECT_LT(support::defect(weight), 0.76 * last * last + 1e-9);
      last = support::defect(weight);
    }
    EXPECT_LT(last, 1e-12);
  }
}

/// Minimises f from `start`, and expects the minimum and an orthonormal matrix.
template <class Policy>
void expect_minimum(const Tensor& start, const std::function<Tensor(const Tensor&)>& f, double best,
                    double rate) {
  for (const double momentum : {0.0, 0.9}) {
    SCOPED_TRACE(::testing::Message() << Policy::kName << " " << start.scalar_type() << " " << momentum);
    auto x = start.clone().requires_grad_();
    auto optimizer = optimizer_of<Policy>({x}, momentum == 0 ? rate : rate / 5, momentum);
    for (int64_t step = 0; step < 1500; ++step) {
      optimizer.zero_grad();
      f(x).backward();
      optimizer.step();
    }
    EXPECT_GT((f(start).item<double>() - best) / std::abs(best), 1e-3) << "the start is the answer";
    EXPECT_NEAR(f(x).item<double>() / best, 1, 1e-10);
    EXPECT_LT(support::defect(x), 1e-11);
    EXPECT_EQ(optimizer.skipped_steps(), 0);
  }
}

TEST(Landing, FindsTheLeadingEigenvaluesAsPogoDoes) {
  const int64_t n = 20, p = 4;
  for (const auto type : kTypes) {
    const auto u = haar({n, n}, type);
    const auto eigenvalues = torch::linspace(1, 3, n, at::kDouble).square();
    const auto a = at::matmul(u * eigenvalues, u.mH());
    const double best = -eigenvalues.narrow(0, n - p, p).sum().item<double>();
    const auto f = [&](const Tensor& x) { return real_dot(x, at::matmul(x, a)).neg(); };
    const auto start = haar({p, n}, type);
    expect_minimum<Pogo>(start, f, best, 0.08);
    expect_minimum<Landing>(start, f, best, 0.08);
  }
}

TEST(Landing, FindsThePolarFactorAsPogoDoes) {
  // min ‖AX − B‖² over orthogonal X: the polar factor of AᴴB.
  const int64_t n = 6;
  for (const auto type : kTypes) {
    const auto a = haar({12, n}, type) * torch::linspace(1, 2, n, at::kDouble);
    const auto b = at::matmul(a, haar({n, n}, type)) + 0.1 * torch::randn({12, n}, type);
    const auto [u, s, vh] = at::linalg_svd(at::matmul(a.mH(), b));
    const double best = (real_dot(a, a) + real_dot(b, b) - 2 * s.sum()).item<double>();
    auto start = haar({n, n}, type);
    // The real orthogonal matrices fall into two components.
    if (type == at::kDouble && (at::linalg_det(start) * at::linalg_det(at::matmul(u, vh))).item<double>() < 0)
      start[0].neg_();
    const auto f = [&](const Tensor& x) {
      const auto rest = at::matmul(a, x) - b;
      return real_dot(rest, rest);
    };
    expect_minimum<Pogo>(start, f, best, 0.03);  // at 0.1 the first step is too long to come back
    expect_minimum<Landing>(start, f, best, 0.1);
  }
}

}  // namespace landing_test
