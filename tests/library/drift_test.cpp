#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <memory>

// Float matrices stay orthonormal: over many steps with random gradients, and on problems chosen to push them
// off.

namespace drift_test {

using at::Tensor;

const std::vector<at::ScalarType> kTypes{at::kFloat, at::kComplexFloat};

at::ScalarType in_double(at::ScalarType type) {
  return type == at::kFloat ? at::kDouble : at::kComplexDouble;
}

int64_t smaller_side(const Tensor& matrix) { return std::min(matrix.size(-2), matrix.size(-1)); }

/// The promise: ‖XᴴX − I‖_F < 5e-6·√p.
double promise(const Tensor& weight) { return 5e-6 * std::sqrt(static_cast<double>(smaller_side(weight))); }

/// The worst of a stack; infinite where it is NaN.
double defect_of(const Tensor& weight) {
  const double worst = stiefel::defect(weight, true).max().item<double>();
  return std::isnan(worst) ? INFINITY : worst;
}

Tensor haar(at::IntArrayRef shape, at::ScalarType type) {
  auto weight = torch::empty(shape, type);
  return stiefel::init::haar_(weight, true);
}

using Gradient = std::function<Tensor(const Tensor& weight)>;

/// The largest defect seen after `first`, looked at every `every` steps and at the end.
double run(torch::optim::Optimizer& optimizer, Tensor& weight, const Gradient& gradient, int64_t steps,
           int64_t every = 1, int64_t first = 1) {
  double worst = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    weight.mutable_grad() = gradient(weight);
    optimizer.step();
    if (step >= first && (step % every == 0 || step == steps)) worst = std::max(worst, defect_of(weight));
  }
  return worst;
}

Tensor random_gradient(const Tensor& weight) { return torch::randn_like(weight); }

stiefel::CayleySGDOptions sgd(double rate, double momentum = 0.9) {
  auto options = stiefel::CayleySGDOptions(rate);
  options.momentum(momentum).batched(true);
  return options;
}

/// The rate that makes α‖W‖_F about `turn` under random gradients: the momentum is then about √(1/(1 − β²))
/// of a gradient.
double rate_for(double turn, const Tensor& weight, double momentum) {
  const auto direction =
      stiefel::project_tangent(weight, random_gradient(weight), true) / std::sqrt(1 - momentum * momentum);
  return turn /
         stiefel::generator_norm(weight, direction, stiefel::Norm::kFrobenius, true).mean().item<double>();
}

struct Walk {
  std::vector<int64_t> shape;
  at::ScalarType type;
  int64_t steps;
};

TEST(Drift, RandomWalksStayOrthonormal) {
  for (const auto& walk : {Walk{{32, 144}, at::kFloat, 20000},
                           {{64, 80}, at::kFloat, 5000},
                           {{16, 16}, at::kFloat, 5000},
                           {{36, 12}, at::kComplexFloat, 5000},
                           {{12, 12}, at::kComplexFloat, 5000},
                           {{1, 40}, at::kFloat, 5000},
                           {{8, 4, 9}, at::kFloat, 5000},
                           {{256, 512}, at::kFloat, 500},
                           {{256, 256}, at::kComplexFloat, 100}}) {
    auto weight = haar(walk.shape, walk.type);
    SCOPED_TRACE(::testing::Message() << walk.type << " " << walk.shape);
    const double rate = rate_for(0.4, weight, 0.9);
    stiefel::CayleySGD optimizer({weight}, sgd(rate));
    EXPECT_LT(run(optimizer, weight, random_gradient, walk.steps, walk.steps / 100), promise(weight));
    // The walk was as brisk as it says. The fewer entries, the more the length of the momentum varies.
    const auto& state = static_cast<stiefel::CayleySGDParamState&>(*optimizer.state().begin()->second);
    const auto norm = stiefel::generator_norm(weight, state.momentum_buffer, stiefel::Norm::kFrobenius, true);
    EXPECT_NEAR(rate * norm.mean().item<double>(), 0.4, 0.2);
  }
}

// Of large matrices E is measured only where a look finds it: at 4u√p, the look itself being off by 3.
TEST(Drift, LargeMatricesStayWithinAFewRoundoffs) {
  for (const auto type : {at::kFloat, at::kDouble, at::kComplexFloat}) {
    auto weight = haar({160, 800}, type);
    stiefel::CayleySGD optimizer({weight}, sgd(rate_for(0.4, weight, 0.9)));
    run(optimizer, weight, random_gradient, 200);
    const auto exact = weight.detach().to(type == at::kComplexFloat ? at::kComplexDouble : at::kDouble);
    const double roundoff = type == at::kDouble ? 0x1p-53 : 0x1p-24;
    EXPECT_LT(defect_of(exact), 8 * roundoff * std::sqrt(160.0)) << type;
  }
}

TEST(Drift, OfOneDirectionOfALargeMatrixIsFound) {
  // Of rank one and two, which hide best from a look in four directions.
  const auto weight = haar({160, 800}, at::kFloat);
  const auto direction = at::randn({160, 1}) / std::sqrt(160.0);
  const auto stretched = weight + at::mm(direction, at::mm(direction.t(), weight)) * 1e-3;
  auto leaning = weight.clone();
  leaning[3].add_(weight[100], 1e-3);
  for (const auto& start : {stretched, leaning}) {
    auto x = start.clone();
    ASSERT_GT(defect_of(x), 1e-3);
    auto options = sgd(1e-3);
    stiefel::CayleySGD optimizer({x}, options.orthonormalize_on_start(false));
    EXPECT_LT(run(optimizer, x, random_gradient, 2, 1, 2), promise(x) / 10);
  }
}

TEST(Drift, RandomWalksOfCayleyAdamStayOrthonormal) {
  for (const auto& walk : {Walk{{16, 40}, at::kFloat, 20000}, {{16, 16}, at::kComplexFloat, 5000}}) {
    auto weight = haar(walk.shape, walk.type);
    auto options = stiefel::CayleyAdamOptions(0.4);
    options.batched(true);
    stiefel::CayleyAdam optimizer({weight}, options);
    EXPECT_LT(run(optimizer, weight, random_gradient, walk.steps, 200), promise(weight)) << walk.type;
  }
}

TEST(Drift, WithoutTheCorrectionsTheyDoNot) {
  for (const auto type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{32, 144}, {16, 16}, {36, 12}}) {
      auto weight = haar(shape, type);
      auto options = sgd(rate_for(0.4, weight, 0.9));
      stiefel::CayleySGD optimizer({weight}, options.polish(false));
      EXPECT_GT(run(optimizer, weight, random_gradient, 1000, 1000), 10 * promise(weight))
          << type << " " << shape;
    }
  }
}

/// f(X) = −½ Re tr XᴴAX with the eigenvalues of A spread evenly over λ ± ½. All but a thousandth of the
/// gradient is normal to the manifold where λ is large.
class Pca {
 public:
  Pca(int64_t n, double lambda, at::ScalarType type) : n_(n) {
    const auto u = haar({n, n}, in_double(type));
    spread_ = torch::linspace(-0.5, 0.5, n, at::kDouble);
    a_ = at::matmul(u.mH() * (spread_ + lambda), u).to(type);
    shifted_ = at::matmul(u.mH() * spread_, u);
  }

  /// Of rows x = Xᴴ: −xA.
  Tensor gradient(const Tensor& x) const { return at::matmul(x, a_).neg(); }

  /// How much of tr Xᴴ(A − λI)X is missing, as a part of its range.
  double gap(const Tensor& x) const {
    const int64_t p = x.size(0);
    const auto xd = x.to(shifted_.scalar_type());
    const double value =
        at::real(at::matmul(at::matmul(xd, shifted_), xd.mH()).diagonal().sum()).item<double>();
    const double best = spread_.narrow(0, n_ - p, p).sum().item<double>();
    const double least = spread_.narrow(0, 0, p).sum().item<double>();
    return (best - value) / (best - least);
  }

 private:
  int64_t n_;
  Tensor spread_;
  Tensor a_;
  Tensor shifted_;
};

TEST(Hostile, PcaWithLargeEigenvalues) {
  for (const auto type : kTypes) {
    for (const double lambda : {6.0, 30.0, 300.0}) {
      for (const auto& shape : {std::vector<int64_t>{8, 60}, {32, 60}, {1, 60}}) {
        const Pca pca(shape[1], lambda, type);
        auto x = haar(shape, type);
        stiefel::CayleySGD optimizer({x}, sgd(0.2));
        const double worst = run(
            optimizer, x, [&](const Tensor& w) { return pca.gradient(w); }, 1000);
        EXPECT_LT(worst, promise(x)) << type << " " << shape << " λ " << lambda;
        EXPECT_LT(pca.gap(x), 1e-6) << type << " " << shape << " λ " << lambda;
      }
    }
  }
}

/// Skew matrices to turn by: in all planes, in one plane only (for real matrices ‖W‖₂ comes nearest to ‖W‖_F
/// there), and, complex, by one phase only, where the two are equal.
std::vector<Tensor> turns(int64_t n, at::ScalarType type) {
  const auto skew = [](const Tensor& a) { return a - a.mH(); };
  std::vector<Tensor> all{skew(torch::randn({n, n}, type)),
                          skew(at::matmul(torch::randn({n, 1}, type), torch::randn({1, n}, type)))};
  if (at::isComplexType(type)) {
    const auto v = torch::randn({n, 1}, type);
    all.push_back(at::matmul(v, v.mH()) * c10::complex<float>(0, 1));
  }
  return all;
}

TEST(Hostile, SquaresTurningAtTheCap) {
  for (const auto type : kTypes) {
    for (const int64_t n : {2, 5, 32}) {
      for (const auto& turn : turns(n, type)) {
        // The gradient turns with X, so that every step turns by the same W as far as the cap lets it.
        auto x = haar({n, n}, type);
        stiefel::CayleySGD optimizer({x}, sgd(100));
        const double worst = run(
            optimizer, x, [&](const Tensor& w) { return at::matmul(turn, w); }, 1000);
        EXPECT_LT(worst, promise(x)) << type << " n " << n;
      }
      auto x = haar({n, n}, type);
      stiefel::CayleySGD optimizer({x}, sgd(100));
      EXPECT_LT(run(optimizer, x, random_gradient, 1000), promise(x)) << type << " n " << n << " random";
    }
  }
}

/// f(X) = −Re tr CᴴX with C of rank r: least at −(the sum of C's singular values).
class Linear {
 public:
  Linear(at::IntArrayRef shape, int64_t rank, at::ScalarType type) {
    const auto wide = in_double(type);
    const auto c = at::matmul(torch::randn({shape[0], rank}, wide), torch::randn({rank, shape[1]}, wide));
    c_ = c / at::linalg_matrix_norm(c, "nuc");
  }
  Tensor gradient(const Tensor& x) const { return c_.to(x.scalar_type()).neg(); }
  double gap(const Tensor& x) const {
    const auto product = c_.conj() * x.to(c_.scalar_type());
    return 1 - (product.is_complex() ? at::real(product) : product).sum().item<double>();
  }

 private:
  Tensor c_;
};

TEST(Hostile, GradientsOfLowRankAtTheCap) {
  for (const auto type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{1, 30}, {2, 30}, {8, 30}, {30, 8}, {20, 24}}) {
      for (const double momentum : {0.9, 0.0}) {
        const Linear linear(shape, std::min<int64_t>(2, shape[0]), type);
        const auto gradient = [&](const Tensor& w) { return linear.gradient(w); };
        auto x = haar(shape, type);
        SCOPED_TRACE(::testing::Message() << type << " " << shape << " momentum " << momentum);
        // Far beyond the cap the point can only run around its goal ...
        stiefel::CayleySGD optimizer({x}, sgd(1e4, momentum));
        EXPECT_LT(run(optimizer, x, gradient, 1000), promise(x));
        // ... and with a rate that suits the problem it arrives.
        optimizer.param_groups()[0].options().set_lr(0.3 * (1 - momentum));
        EXPECT_LT(run(optimizer, x, gradient, 1000), promise(x));
        EXPECT_LT(linear.gap(x), 1e-4);
      }
    }
  }
}

TEST(Hostile, GradientsOfAnyLengthAtTheCap) {
  // The fourth power of a length overflows in float from 4e9 on.
  for (const auto type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{4, 9}, {4, 24}, {24, 4}, {6, 6}, {1, 16}}) {
      for (double length = 1e-12; length < 1e15; length *= 100) {
        auto x = haar(shape, type);
        stiefel::CayleySGD optimizer({x}, sgd(0.2));
        int64_t step = 0;
        const auto gradient = [&](const Tensor& w) {
          const auto rank_one =
              at::matmul(torch::randn({w.size(0), 1}, type), torch::randn({1, w.size(1)}, type));
          return (step++ % 20 < 10 ? rank_one : torch::randn_like(w) + 30 * w) * (length / 60);
        };
        EXPECT_LT(run(optimizer, x, gradient, 60), promise(x))
            << type << " " << shape << " length " << length;
        EXPECT_EQ(optimizer.skipped_steps(), 0);
      }
    }
  }
}

/// A point off the manifold by ‖XᴴX − I‖_F = 1e-2: a Hermitian factor times an orthonormal matrix, as every
/// matrix is.
Tensor displaced(at::IntArrayRef shape, at::ScalarType type) {
  const auto x = haar(shape, type);
  const auto noise = torch::randn({shape[0], shape[0]}, type);
  const auto factor = noise + noise.mH();
  return x + at::matmul(factor * (0.5e-2 / at::linalg_matrix_norm(factor)), x);
}

TEST(Hostile, StartsOffTheManifoldAreDrawnIn) {
  for (const auto type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{8, 60}, {32, 60}, {1, 60}, {60, 60}}) {
      SCOPED_TRACE(::testing::Message() << type << " " << shape);
      for (const double lambda : {6.0, 300.0}) {
        const Pca pca(60, lambda, type);
        auto x = displaced(shape, type);
        ASSERT_NEAR(defect_of(x), 1e-2, 1e-4);
        auto options = sgd(0.2);
        options.orthonormalize_on_start(false);
        stiefel::CayleySGD optimizer({x}, options);
        EXPECT_NEAR(defect_of(x), 1e-2, 1e-4) << "the start was repaired";
        const double worst = run(
            optimizer, x, [&](const Tensor& w) { return pca.gradient(w); }, 1000, 1, 3);
        EXPECT_LT(worst, promise(x)) << "λ " << lambda;
        if (shape[0] < shape[1]) {
          EXPECT_LT(pca.gap(x), 1e-6) << "λ " << lambda;
        }
      }
      for (const double rate : {1e-3, 100.0}) {  // gently, and at the cap
        auto x = displaced(shape, type);
        auto options = sgd(rate);
        options.orthonormalize_on_start(false);
        stiefel::CayleySGD optimizer({x}, options);
        EXPECT_LT(run(optimizer, x, random_gradient, 100, 1, 3), promise(x)) << "rate " << rate;
      }
    }
  }
}

}  // namespace drift_test
