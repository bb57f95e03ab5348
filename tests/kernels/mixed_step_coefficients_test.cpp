#include "mixed_step_stages.h"
#include "src/minimax_quintics.h"

// The coefficients of a mixed step and the matrix that they make, for Cayley SGD and for Cayley Muon: the
// kernels' own code against the same step in double, which knows nothing of pieces, units and tiles.

namespace {

Rows zeros(size_t rows, size_t columns) { return Rows(rows, std::vector<double>(columns)); }

Rows identity(size_t p) {
  Rows result = zeros(p, p);
  for (size_t i = 0; i < p; ++i) result[i][i] = 1;
  return result;
}

Rows transpose(const Rows& a) {
  Rows result = zeros(a.empty() ? 0 : a[0].size(), a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) result[j][i] = a[i][j];
  }
  return result;
}

/// A B.
Rows times(const Rows& a, const Rows& b) { return product(a, transpose(b)); }

/// αA + βB.
Rows sum(double alpha, const Rows& a, double beta, const Rows& b) {
  Rows result = a;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) result[i][j] = alpha * a[i][j] + beta * b[i][j];
  }
  return result;
}

double norm(const Rows& a) { return std::sqrt(squared_norm(a)); }

/// G^(−½) of a positive definite matrix near the identity, by Newton's iteration.
Rows inverse_root(const Rows& g) {
  Rows y = identity(g.size());
  for (int i = 0; i < 30; ++i) {
    y = times(y, sum(1.5, identity(g.size()), -0.5, times(g, times(y, y))));
  }
  return y;
}

/// The polar factor of x.
Rows orthonormal(const Rows& x) { return times(inverse_root(product(x, x)), x); }

/// x moved by the paper's iteration with two rounds along τD, D tangent at x, and made orthonormal.
Rows cayley(const Rows& x, const Rows& d, double tau) {
  const Rows omega = product(x, d), t = product(d, d), r = sum(1, t, 1, times(omega, omega));
  const size_t p = x.size();
  Rows f = zeros(p, p), c = sum(tau, identity(p), 0, identity(p));
  for (int round = 0; round < 2; ++round) {  // (F, C) ← (−(τ/2)CR, τI + (τ/2)(F − CΩ))
    const Rows next = sum(-tau / 2, times(c, r), 0, r);
    c = sum(tau, identity(p), tau / 2, sum(1, f, -1, times(c, omega)));
    f = next;
  }
  return orthonormal(sum(1, x, 1, sum(1, times(f, x), 1, times(c, d))));
}

/// A tangent direction's normal part taken off.
Rows tangent(const Rows& x, const Rows& m) {
  const Rows s = product(x, m);
  return sum(1, m, -0.5, times(sum(1, s, 1, transpose(s)), x));
}

/// K by the quintics in double.
Rows root_of(const Rows& m, const PolarRecipe& polar) {
  const size_t p = m.size();
  const Rows t = product(m, m);
  const double length = norm(t), floor = 3e-4;
  Rows a = sum(1 / (length * (1 + 2 * floor)), t, floor / (1 + 2 * floor), identity(p)), k = identity(p);
  for (int round = 0; round < polar.rounds; ++round) {
    const auto& q = polar.quintics[round];
    const Rows factor = sum(1, sum(static_cast<double>(q.a), identity(p), static_cast<double>(q.b), a),
                            static_cast<double>(q.c), times(a, a));
    k = times(k, factor);
    a = times(times(a, factor), factor);
  }
  return sum(1 / std::sqrt(length), k, 0, k);
}

/// The terms of Cayley Muon as step_by_kernels.cpp passes them.
PolarRecipe polar_recipe(int rounds) {
  const auto& all = stiefel::detail::minimax_quintics(rounds);
  PolarRecipe polar{};
  polar.most_turn = 0.25;
  polar.gain = all.gain;
  polar.negligible = 2e-3;
  polar.rounds = rounds;
  for (size_t i = 0; i < all.rounds.size(); ++i) {
    const auto& [first, second, third] = all.rounds[i];
    const double by = i + 1 < all.rounds.size() ? 1 / 1.01 : 1;
    polar.quintics[i] = {static_cast<float>(first * by), static_cast<float>(second * std::pow(by, 3)),
                         static_cast<float>(third * std::pow(by, 5))};
  }
  return polar;
}

struct CoefficientCase {
  int rounds;  // 0: Cayley SGD
  double rate;
  enum Gradient { kFlat, kSteep, kRankOne } gradient;  // steep: singular values from 1 to 1e-3
};

class Coefficients : public testing::TestWithParam<CoefficientCase> {};

TEST_P(Coefficients, MoveTheMatrixAsTheStepInDoubleDoes) {
  const auto& [rounds, rate, gradient] = GetParam();
  Stages stages(stage_cases());
  for (size_t s = 0; s < stages.count(); ++s) {
    const auto& l = stages.layout(s);
    for (int c = 0; c < l.n; ++c) stages.point(s).at(0, c) /= 1.01f;  // back onto the manifold
    for (int r = 0; r < l.p; ++r) {
      const float size = std::exp2(-10.0f * static_cast<float>(r) / static_cast<float>(l.p));
      for (int c = 0; c < l.n; ++c) {
        auto& g = stages.gradient(s).at(r, c);
        if (gradient == CoefficientCase::kSteep) g *= size;
        if (gradient == CoefficientCase::kRankOne) {
          stages.momentum(s).at(r, c) = 0;
          g = stages.gradient(s).at(0, c) * std::cos(static_cast<float>(r));
        }
      }
    }
  }
  if (rounds > 0) stages.recipe().polar = polar_recipe(rounds);
  stages.recipe().rate = &rate;
  stages.recipe().q = 0.5;
  stages.split(true);
  stages.find_normal();
  stages.project();
  stages.find_tangent();
  stages.find_grams_and_root();
  std::vector<Rows> roots;
  for (size_t s = 0; rounds > 0 && s < stages.count(); ++s) roots.push_back(stages.root(s));
  stages.find_coefficients();
  std::vector<Rows> points;
  for (size_t s = 0; s < stages.count(); ++s) points.push_back(stages.x(s));
  stages.move();
  for (size_t s = 0; s < stages.count(); ++s) {
    const auto& l = stages.layout(s);
    SCOPED_TRACE(named({l.p, l.n}));
    if (l.n == 1) continue;  // there is nowhere to go
    const Rows before = orthonormal(points[s]);
    Rows m = stages.piece(s, kM1);
    m.resize(static_cast<size_t>(l.p));
    for (auto& row : m) {
      row.resize(static_cast<size_t>(l.n));
      for (auto& value : row) value /= static_cast<double>(stages.state(s).decision.m_scale);
    }
    m = tangent(before, m);
    Rows direction = m;
    if (rounds > 0) {
      // Small singular values, which squares have, come out of a Gram matrix of halves less accurately. That
      // changes where the matrix goes a little, and not that it stays orthonormal.
      const Rows polar = times(roots[s], m), exact = times(root_of(m, stages.recipe().polar), m);
      const double apart = l.p == l.n ? 0.25 : gradient == CoefficientCase::kRankOne ? 0.15 : 0.05;
      EXPECT_LT(norm(sum(1, polar, -1, exact)), apart * norm(exact));
      direction = tangent(before, polar);
      EXPECT_NEAR(static_cast<double>(stages.state(s).decision.normal),
                  std::sqrt(stages.sum_of_pairs(s, &PairNorms::sigma2)), 1e-6);
      EXPECT_FLOAT_EQ(stages.state(s).size.tau, static_cast<float>(-rate));
    }
    const double tau = static_cast<double>(stages.state(s).size.tau);
    const Rows expected = cayley(before, direction, tau), after = stages.x(s);
    const double step = norm(sum(1, expected, -1, before));
    EXPECT_LT(norm(sum(1, after, -1, expected)), 4e-3 * step + 2e-6) << "of " << step;
    const Rows gram = product(after, after);
    EXPECT_LT(norm(sum(1, gram, -1, identity(gram.size()))),
              4e-6 + 4.5e-4 * rate * (1 + std::sqrt(1.0 * l.p * l.p / l.n)));
  }
}

INSTANTIATE_TEST_SUITE_P(Mixed, Coefficients,
                         testing::Values(CoefficientCase{0, 0.05, CoefficientCase::kFlat},
                                         CoefficientCase{2, 0.01, CoefficientCase::kFlat},
                                         CoefficientCase{2, 0.01, CoefficientCase::kSteep},
                                         CoefficientCase{2, 0.1, CoefficientCase::kSteep},
                                         CoefficientCase{2, 0.02, CoefficientCase::kRankOne},
                                         CoefficientCase{1, 0.05, CoefficientCase::kFlat}),
                         [](const auto& one) {
                           return "Rounds" + std::to_string(one.param.rounds) + "Rate" +
                                  std::to_string(static_cast<int>(one.param.rate * 1000)) +
                                  std::to_string(one.param.gradient);
                         });

}  // namespace
