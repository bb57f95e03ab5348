#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <random>
#include <sstream>

#include "reference.h"

// The optimisers against the paper's algorithms with the dense n×n W, in double, over random shapes and
// options.

namespace {

using at::Tensor;
using reference::Norm;
using reference::Options;
using reference::Point;

/// One parameter (or stack) and how it is stepped.
struct Case {
  std::vector<int64_t> shape;
  bool batched = false;
  bool complex = false;
  bool adam = false;
  Options options;

  /// 1×1 or 2×1.
  bool tiny() const {
    return shape == std::vector<int64_t>{1, 1} || shape == std::vector<int64_t>{1, 2} ||
           shape == std::vector<int64_t>{2, 1};
  }
  at::ScalarType type() const { return complex ? at::kComplexDouble : at::kDouble; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const auto& o = c.options;
  out << (c.adam ? "Cayley ADAM" : "Cayley SGD") << (c.complex ? " complex " : " real ") << c.shape
      << (c.batched ? " batched" : "") << ", rate " << o.rate << ", betas " << o.beta1 << " " << o.beta2
      << ", q " << o.q << ", eps " << o.eps;
  if (o.exact) return out << ", exact, polish " << o.polish;
  return out << ", s " << o.iterations << ", norm " << static_cast<int>(o.norm) << ", polish " << o.polish;
}

stiefel::Norm library_norm(Norm norm) {
  switch (norm) {
    case Norm::kOne:
      return stiefel::Norm::kOne;
    case Norm::kSpectral:
      return stiefel::Norm::kSpectral;
    case Norm::kFrobenius:
      break;
  }
  return stiefel::Norm::kFrobenius;
}

template <class LibraryOptions>
LibraryOptions translate(const Case& c) {
  const auto& o = c.options;
  auto options = LibraryOptions(o.rate);
  options.batched(c.batched).q(o.q).eps(o.eps).iterations(o.iterations).exact(o.exact).polish(o.polish);
  options.norm(library_norm(o.norm));
  return options;
}

std::unique_ptr<stiefel::CayleyOptimizer> make_optimizer(std::vector<Tensor> parameters, const Case& c) {
  if (c.adam) {
    auto options = translate<stiefel::CayleyAdamOptions>(c).betas({c.options.beta1, c.options.beta2});
    return std::make_unique<stiefel::CayleyAdam>(std::move(parameters), options);
  }
  auto options = translate<stiefel::CayleySGDOptions>(c).momentum(c.options.beta1);
  return std::make_unique<stiefel::CayleySGD>(std::move(parameters), options);
}

/// The momentum that the library keeps for its only parameter. It has the sign of the gradient.
Tensor only_momentum(stiefel::CayleyOptimizer& optimizer, const Case& c) {
  auto& state = *optimizer.state().begin()->second;
  return c.adam ? static_cast<stiefel::CayleyAdamParamState&>(state).exp_avg
                : static_cast<stiefel::CayleySGDParamState&>(state).momentum_buffer;
}

void reference_step(Point& point, const Tensor& g, const Case& c) {
  c.adam ? reference::adam_step(point, g, c.options) : reference::sgd_step(point, g, c.options);
}

double size_of(const Tensor& t) { return t.abs().max().item<double>(); }

/// The largest difference of any entry, relative to the largest entry where that is above 1 (an iteration
/// that has drifted can have grown). A NaN counts as infinite.
double gap(const Tensor& ours, const Tensor& theirs) {
  const double difference = size_of(ours - theirs) / std::max(1.0, size_of(theirs));
  return std::isnan(difference) ? INFINITY : difference;
}

/// A gradient whose matrices have the Frobenius norm 1 on average, so that rates mean the same for every
/// shape.
Tensor random_gradient(const Tensor& weight, int64_t matrices) {
  return torch::randn_like(weight) /
         std::sqrt(static_cast<double>(weight.numel()) / static_cast<double>(matrices));
}

struct Outcome {
  double point = 0;     ///< the worst gap of X over the run
  double momentum = 0;  ///< the gap of M at the end
  double turn = 0;      ///< the largest α‖W‖_F of the run
  double drift = 0;     ///< the reference's defect at the end
  bool capped = false;  ///< whether the cap ever held
};

/// Steps a fresh point with the library and with the reference, gradient by gradient.
Outcome compare(const Case& c, int64_t steps) {
  auto weight = reference::orthonormal_weight(c.shape, c.batched, c.type());
  std::vector<Point> points;
  for (const auto& x : reference::tall(weight, c.batched)) points.emplace_back(x);
  auto optimizer = make_optimizer({weight}, c);
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    weight.mutable_grad() = random_gradient(weight, static_cast<int64_t>(points.size()));
    const auto gradients = reference::tall(weight.grad(), c.batched);
    optimizer->step();
    const auto ours = reference::tall(weight, c.batched);
    for (size_t i = 0; i < points.size(); ++i) {
      reference_step(points[i], gradients[i], c);
      outcome.point = std::max(outcome.point, gap(ours[i], points[i].x));
      outcome.turn = std::max(outcome.turn, points[i].turn);
      outcome.capped |= points[i].capped;
    }
  }
  const auto momenta = reference::tall(only_momentum(*optimizer, c), c.batched);
  for (size_t i = 0; i < points.size(); ++i) {
    const auto theirs = c.adam ? points[i].m : -points[i].m;
    outcome.momentum = std::max(outcome.momentum, gap(momenta[i], theirs));
    outcome.drift = std::max(outcome.drift, reference::defect(points[i].x));
  }
  return outcome;
}

/// Random shapes of every kind and random options, the same in every run.
class Cases {
 public:
  explicit Cases(uint32_t seed) : random_(seed) { torch::manual_seed(seed); }

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  bool coin() { return between(0, 1) == 1; }

  static constexpr int kKinds = 10;

  Case make(int kind, bool complex, bool adam) {
    Case c;
    c.complex = complex;
    c.adam = adam;
    const int64_t p = between(2, 9);
    switch (kind) {
      case 0:
        c.shape = {p, p + between(1, 4 * p)};
        break;
      case 1:
        c.shape = {p + between(1, 4 * p), p};
        break;
      case 2:
        c.shape = {p, p};
        break;
      case 3:
        c.shape = {1, between(1, 30)};
        break;
      case 4:
        c.shape = {coin() ? between(1, 2) : between(3, 30), 1};
        break;
      case 5:
        c.shape = {between(2, 12), between(2, 4), 3, 3};
        break;
      case 6:
        c.shape = {p + 2, p + 2 + between(1, p)};  // n < 2p: W has full rank
        break;
      case 7:
        c.shape = {p, p * between(4, 8)};  // thin: the literal step takes its coefficient form
        break;
      case 8:
        c.shape = {between(2, 4), p, p + between(0, 3 * p)};
        c.batched = true;
        break;
      default:
        c.shape = {2, between(1, 3), p + between(1, 3 * p), p};
        c.batched = true;
        break;
    }
    c.options.beta1 = adam ? uniform(0.5, 0.95) : (coin() ? 0.9 : uniform(0, 0.9));
    c.options.beta2 = uniform(0.9, 0.999);
    c.options.eps = coin() ? 1e-8 : uniform(1e-6, 1e-3);
    c.options.iterations = between(1, 5);
    const Norm norms[] = {Norm::kFrobenius, Norm::kFrobenius, Norm::kOne, Norm::kSpectral};
    c.options.norm = norms[between(0, 3)];
    return c;
  }

  /// Every kind of shape, real and complex, both optimisers, `rounds` times each.
  std::vector<Case> all(int rounds) {
    std::vector<Case> cases;
    for (int round = 0; round < rounds; ++round) {
      for (int kind = 0; kind < kKinds; ++kind) {
        for (const bool complex : {false, true}) {
          for (const bool adam : {false, true}) cases.push_back(make(kind, complex, adam));
        }
      }
    }
    return cases;
  }

  /// A rate at which α‖W‖_F is about `turn`: with gradients of norm 1, M is about 1/√(1 − β²) long under
  /// Cayley SGD and M/r at most about 1 under Cayley ADAM, and ‖W‖_F ≤ √2‖M‖.
  static double rate_for(double turn, const Case& c) {
    return turn / (c.adam ? std::sqrt(2.0) : std::sqrt(2 / (1 - c.options.beta1 * c.options.beta1)));
  }

 private:
  std::mt19937 random_;
};

TEST(Literal, IsThePapersIterationHoweverFarItHasDrifted) {
  Cases random(1);
  double worst_drift = 0;
  auto cases = random.all(3);
  for (auto& c : cases) {
    auto& o = c.options;
    o.polish = false;
    // The spectral norm is an estimate with a margin, so there the rate must stay clear of the cap.
    // 1×1 and 2×1 at the cap are ill-conditioned: there α is 2q over a norm that is itself all cancellation.
    const bool at_cap = o.norm != Norm::kSpectral && !c.tiny() && random.coin();
    const bool spectral = o.norm == Norm::kSpectral;
    if (spectral) o.q = 0.95;
    o.rate = at_cap ? 10 : Cases::rate_for(random.uniform(0.05, spectral ? 0.3 : 0.6), c);
    SCOPED_TRACE(::testing::Message() << c);
    const auto outcome = compare(c, 50);
    EXPECT_LT(outcome.point, 1e-11);
    EXPECT_LT(outcome.momentum, 1e-11);
    if (at_cap) {
      EXPECT_TRUE(outcome.capped);
    }
    if (spectral) {
      ASSERT_LT(1.1 * outcome.turn, 2 * o.q);
    }
    worst_drift = std::max(worst_drift, outcome.drift);
  }
  EXPECT_GE(cases.size(), 100u);
  // The point of the comparison: it holds where the iterate is far off the manifold.
  EXPECT_GT(worst_drift, 0.1);
}

TEST(Literal, HoldsInBothItsFormsForEveryNumberOfRounds) {
  // Dense where p is near n, coefficients where the matrix is thin.
  for (const auto& shape :
       {std::vector<int64_t>{12, 12}, {12, 13}, {13, 12}, {12, 20}, {6, 24}, {30, 5}, {4, 4, 3, 3}}) {
    for (const bool complex : {false, true}) {
      for (const bool adam : {false, true}) {
        for (int64_t rounds = 0; rounds <= 5; ++rounds) {
          Case c;
          c.shape = shape;
          c.complex = complex;
          c.adam = adam;
          c.options.polish = false;
          c.options.iterations = rounds;
          c.options.rate = Cases::rate_for(0.3, c);
          SCOPED_TRACE(::testing::Message() << c);
          // s = 0 is Euler's method: it diverges.
          const auto outcome = compare(c, rounds == 0 ? 5 : 50);
          EXPECT_LT(outcome.point, 1e-11);
          EXPECT_LT(outcome.momentum, 1e-11);
        }
      }
    }
  }
}

TEST(Polished, OneStepIsThePolarFactorOfTheDenseStep) {
  Cases random(2);
  for (auto c : random.all(4)) {
    auto& o = c.options;
    o.iterations = random.between(0, 5);
    if (random.between(0, 5) == 0) o.exact = true;
    if (!o.exact && o.norm == Norm::kFrobenius && random.coin()) {
      o.q = random.uniform(0.01, 0.125);  // the cap itself keeps α‖W‖ small
      o.rate = 10;
    } else {
      o.rate = random.uniform(0.02, 0.25) / std::sqrt(2.0) * (c.adam ? 1 : 0.5);
    }
    SCOPED_TRACE(::testing::Message() << c);
    const auto outcome = compare(c, 1);
    ASSERT_LE(outcome.turn, 0.25);
    EXPECT_LT(outcome.point, 1e-12);
    EXPECT_LT(outcome.momentum, 1e-12);
  }
}

TEST(Polished, OneStepAtTheCapIsToo) {
  Cases random(3);
  for (auto c : random.all(3)) {
    auto& o = c.options;
    if (o.norm == Norm::kSpectral) continue;  // see SpectralCap
    o.rate = 100;
    SCOPED_TRACE(::testing::Message() << c);
    const auto outcome = compare(c, 1);
    EXPECT_TRUE(outcome.capped || c.tiny());  // a real 1×1 matrix cannot move at all
    EXPECT_LT(outcome.point, 1e-9);
    EXPECT_LT(outcome.momentum, 1e-12);
  }
}

TEST(Polished, FiftyStepsAreThePolarFactorsOfDenseSteps) {
  Cases random(4);
  const auto cases = random.all(3);
  for (auto c : cases) {
    auto& o = c.options;
    if (o.norm == Norm::kFrobenius && random.coin()) {
      o.q = random.uniform(0.02, 0.1);
      o.rate = 10;
    } else {
      // The momentum of the smallest matrices varies by half around its mean.
      o.rate = Cases::rate_for(random.uniform(0.02, 0.1), c);
    }
    SCOPED_TRACE(::testing::Message() << c);
    const auto outcome = compare(c, 50);
    ASSERT_LE(outcome.turn, 0.2001);
    EXPECT_LT(outcome.point, 1e-11);
    EXPECT_LT(outcome.momentum, 1e-11);
    EXPECT_LT(outcome.drift, 1e-12);
  }
  EXPECT_GE(cases.size(), 100u);
}

TEST(Exact, IsTheDenseClosedForm) {
  Cases random(5);
  for (auto c : random.all(2)) {
    c.options.exact = true;
    for (const bool polish : {true, false}) {
      c.options.polish = polish;
      // No contraction is needed, so no rate is too large.
      c.options.rate = Cases::rate_for(random.uniform(0.1, 3), c);
      SCOPED_TRACE(::testing::Message() << c);
      const auto outcome = compare(c, 50);
      EXPECT_LT(outcome.point, 1e-11);
      EXPECT_LT(outcome.momentum, 1e-11);
      EXPECT_LT(outcome.drift, 1e-11);
      EXPECT_FALSE(outcome.capped);
    }
  }
}

TEST(Norms, FrobeniusAndOneAreTheirDefinitions) {
  Cases random(6);
  for (const auto& c : random.all(2)) {
    if (c.shape.size() == 4 && !c.batched) continue;  // takes (…, p, n)
    for (const double off : {0.0, 0.1}) {
      // Off the manifold and with a normal part: W is defined there too, and the literal step needs its norm.
      auto weight = reference::orthonormal_weight(c.shape, true, c.type());
      weight = weight + off * torch::randn_like(weight);
      const auto direction = torch::randn_like(weight);
      const auto x = reference::tall(weight, true);
      const auto m = reference::tall(direction, true);
      for (const Norm norm : {Norm::kFrobenius, Norm::kOne}) {
        const auto ours = stiefel::generator_norm(weight, direction, library_norm(norm)).reshape({-1});
        ASSERT_EQ(ours.size(0), static_cast<int64_t>(x.size()));
        for (size_t i = 0; i < x.size(); ++i) {
          const double theirs = reference::norm_of(reference::generator(x[i], m[i]), norm);
          // W of a 1×1 or 2×1 matrix is what a difference of squares leaves, so its root has half the digits.
          const double tolerance = c.tiny() ? 1e-7 : 1e-12;
          EXPECT_NEAR(ours[static_cast<int64_t>(i)].item<double>(), theirs, tolerance * (1 + theirs)) << c;
        }
      }
    }
  }
}

TEST(Norms, SpectralIsBetweenTheTruthAndATenthMore) {
  Cases random(7);
  auto cases = random.all(2);
  for (const auto& shape : {std::vector<int64_t>{32, 144}, {64, 64}, {64, 100}, {20, 400}}) {
    for (const bool complex : {false, true}) {
      Case c;
      c.shape = shape;
      c.complex = complex;
      cases.push_back(c);
    }
  }
  for (const auto& c : cases) {
    if (c.shape.size() == 4 && !c.batched) continue;
    const auto weight = reference::orthonormal_weight(c.shape, true, c.type());
    const auto direction = torch::randn_like(weight);
    const auto x = reference::tall(weight, true);
    const auto m = reference::tall(direction, true);
    const auto ours = stiefel::generator_norm(weight, direction, stiefel::Norm::kSpectral).reshape({-1});
    for (size_t i = 0; i < x.size(); ++i) {
      const double theirs = reference::norm_of(reference::generator(x[i], m[i]), Norm::kSpectral);
      const double estimate = ours[static_cast<int64_t>(i)].item<double>();
      EXPECT_GE(estimate, theirs - 1e-12) << c << " ratio " << estimate / theirs;
      EXPECT_LE(estimate, 1.1 * theirs + 1e-12) << c << " ratio " << estimate / theirs;
    }
  }
}

TEST(Norms, SpectralCapStopsBetweenTheTruthAndATenthLess) {
  // At the cap α is 2q over an estimate of ‖W‖₂. Find the α that explains how far the step went; it must lie
  // where the estimate may, and the whole step must be the dense one with it.
  Cases random(8);
  for (auto c : random.all(2)) {
    c.options.norm = Norm::kSpectral;
    c.options.rate = 100;
    c.options.polish = random.coin();
    if (c.batched || c.tiny()) continue;
    SCOPED_TRACE(::testing::Message() << c);
    auto weight = reference::orthonormal_weight(c.shape, false, c.type());
    Point start(reference::tall(weight, false)[0]);
    auto optimizer = make_optimizer({weight}, c);
    weight.mutable_grad() = random_gradient(weight, 1);
    const auto g = reference::tall(weight.grad(), false)[0];
    optimizer->step();
    const auto ours = reference::tall(weight, false)[0];

    Point probe = start;
    reference_step(probe, g, c);
    const auto step_with = [&](double alpha) {
      const auto y = reference::iterate(start.x, probe.last_w, alpha, c.options.iterations);
      return c.options.polish ? reference::polar(y) : y;
    };
    const double norm = reference::norm_of(probe.last_w, Norm::kSpectral);
    const double low = 1 / (1.1 * norm + c.options.eps), high = 1 / (norm + c.options.eps);
    const auto length = [&](const Tensor& y) { return (y - start.x).norm().abs().item<double>(); };
    double a = 0.5 * low, b = 1.5 * high;
    for (int i = 0; i < 60; ++i) (length(step_with(0.5 * (a + b))) < length(ours) ? a : b) = 0.5 * (a + b);
    EXPECT_GE(a, low * (1 - 1e-9));
    EXPECT_LE(a, high * (1 + 1e-9));
    EXPECT_LT(gap(ours, step_with(a)), 1e-9);
  }
}

TEST(Float, OneStepAgreesWithTheDoubleReference) {
  Cases random(9);
  for (auto c : random.all(2)) {
    auto& o = c.options;
    o.polish = random.coin();
    o.iterations = random.between(1, 5);
    const bool at_cap = o.norm != Norm::kSpectral && random.coin();
    o.rate = at_cap ? 100 : random.uniform(0.02, 0.25);
    SCOPED_TRACE(::testing::Message() << c);
    auto weight =
        reference::orthonormal_weight(c.shape, c.batched, c.complex ? at::kComplexFloat : at::kFloat);
    std::vector<Point> points;
    for (const auto& x : reference::tall(weight, c.batched)) points.emplace_back(x);
    auto optimizer = make_optimizer({weight}, c);
    weight.mutable_grad() = random_gradient(weight, static_cast<int64_t>(points.size()));
    const auto gradients = reference::tall(weight.grad(), c.batched);
    optimizer->step();
    const auto ours = reference::tall(weight, c.batched);
    for (size_t i = 0; i < points.size(); ++i) {
      reference_step(points[i], gradients[i], c);
      EXPECT_LT(gap(ours[i], points[i].x), 1e-5);
    }
  }
}

/// Several parameters of one shape, stepped together: some gradients have holes in some steps.
void expect_holes_to_stay_where_they_are(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c);
  constexpr int64_t kParameters = 5;
  constexpr int64_t kSteps = 30;
  std::vector<Tensor> weights;
  std::vector<std::vector<Point>> points;
  for (int64_t i = 0; i < kParameters; ++i) {
    weights.push_back(reference::orthonormal_weight(c.shape, c.batched, c.type()));
    points.emplace_back();
    for (const auto& x : reference::tall(weights.back(), c.batched)) points.back().emplace_back(x);
  }
  auto optimizer = make_optimizer(weights, c);
  const double poisons[] = {NAN, INFINITY, -INFINITY};
  int64_t holes = 0;
  double worst = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t i = 0; i < kParameters; ++i) {
      auto& weight = weights[static_cast<size_t>(i)];
      auto gradient = random_gradient(weight, static_cast<int64_t>(points[static_cast<size_t>(i)].size()));
      // The first step of one parameter (no state yet), a whole row, a single entry.
      const bool hole = (i == 1 && step == 0) || (i == 3 && step % 4 == 2) || (i == 4 && step % 5 == 3);
      if (hole) {
        auto matrix = c.batched ? gradient.flatten(0, -3)[0] : gradient;
        auto row = matrix[matrix.size(0) - 1].flatten();
        (i == 3 ? row : row.narrow(0, 0, 1)).fill_(poisons[step % 3]);
        ++holes;
      }
      weight.mutable_grad() = gradient;
    }
    optimizer->step();
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto gradients = reference::tall(weights[i].grad(), c.batched);
      const auto ours = reference::tall(weights[i], c.batched);
      for (size_t j = 0; j < ours.size(); ++j) {
        if (torch::isfinite(gradients[j].abs()).all().item<bool>())
          reference_step(points[i][j], gradients[j], c);
        worst = std::max(worst, gap(ours[j], points[i][j].x));
      }
    }
  }
  EXPECT_LT(worst, 1e-11);
  EXPECT_GT(holes, 10);
  EXPECT_EQ(optimizer->skipped_steps(), holes);
}

TEST(NonFinite, GradientsStopOneMatrixAndNoOther) {
  for (const bool adam : {false, true}) {
    for (const bool complex : {false, true}) {
      for (const bool exact : {false, true}) {
        for (const bool polish : {true, false}) {
          for (const auto& shape : {std::vector<int64_t>{4, 18}, {7, 7}, {8, 9}, {10, 3}}) {
            Case c;
            c.shape = shape;
            c.adam = adam;
            c.complex = complex;
            c.options.exact = exact;
            c.options.polish = polish;
            c.options.rate = Cases::rate_for(0.1, c);
            expect_holes_to_stay_where_they_are(c);
            c.shape.insert(c.shape.begin(), 3);
            c.batched = true;
            expect_holes_to_stay_where_they_are(c);
          }
        }
      }
    }
  }
}

}  // namespace
