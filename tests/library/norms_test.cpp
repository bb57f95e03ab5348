#include "parity_cases.h"

// The norms of W against their definitions, and the cap on the step that they make.

namespace norms_test {

using namespace parity;

TEST(Norms, FrobeniusAndOneAreTheirDefinitions) {
  Cases random(6);
  for (const auto& c : random.all(2)) {
    for (const double off : {0.0, 0.1}) {
      // Off the manifold and with a normal part: W is defined there too, and the literal step needs its norm.
      auto weight = reference::orthonormal_weight(c.shape, c.batched, c.type());
      weight = weight + off * torch::randn_like(weight);
      const auto direction = torch::randn_like(weight);
      const auto x = reference::tall(weight, c.batched);
      const auto m = reference::tall(direction, c.batched);
      for (const Norm norm : {Norm::kFrobenius, Norm::kOne}) {
        const auto ours =
            stiefel::generator_norm(weight, direction, library_norm(norm), c.batched).reshape({-1});
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

TEST(Generator, IsItsDefinition) {
  Cases random(6);
  for (const auto& c : random.all(2)) {
    const auto weight = reference::orthonormal_weight(c.shape, c.batched, c.type());
    const auto direction = torch::randn_like(weight);
    const auto x = reference::tall(weight, c.batched);
    const auto m = reference::tall(direction, c.batched);
    const int64_t n = x[0].size(0), rows = c.batched ? weight.size(-2) : weight.size(0);
    const auto ours = stiefel::generator(weight, direction, c.batched).reshape({-1, n, n});
    ASSERT_EQ(ours.size(0), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      auto theirs = reference::generator(x[i], m[i]);
      // The library reads a tall weight by its plain transpose, the reference as it is.
      if (rows == n && x[i].size(1) < n) theirs = theirs.conj();
      EXPECT_LT((ours[static_cast<int64_t>(i)] - theirs).abs().max().item<double>(), 1e-12) << c;
    }
  }
  EXPECT_THROW(stiefel::generator(torch::eye(3), torch::eye(4)), c10::Error);
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
    const auto weight = reference::orthonormal_weight(c.shape, c.batched, c.type());
    const auto direction = torch::randn_like(weight);
    const auto x = reference::tall(weight, c.batched);
    const auto m = reference::tall(direction, c.batched);
    const auto ours =
        stiefel::generator_norm(weight, direction, stiefel::Norm::kSpectral, c.batched).reshape({-1});
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

}  // namespace norms_test
