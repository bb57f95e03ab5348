#include "parity_cases.h"

// The optimisers against the paper's algorithms with the dense n×n W, in double, over random shapes and
// options.

namespace parity_test {

using namespace parity;

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

}  // namespace parity_test
