#include "mixed_step_stages.h"

// What the kernels before the coefficients compute, against the formulas in double.

namespace {

/// Expects zeros in what a p×p buffer has beyond p.
void expect_zero_padding(const Rows& matrix, int p) {
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < matrix.size(); ++j) {
      if (i < static_cast<size_t>(p) && j < static_cast<size_t>(p)) continue;
      ASSERT_EQ(matrix[i][j], 0) << i << " " << j;
    }
  }
}

class SplitRows : public testing::TestWithParam<bool> {};

TEST_P(SplitRows, WritesThePiecesAndZerosTheirPadding) {
  // Without the row in shared memory, as for rows too long for it, fewer shapes will do.
  const auto& all = stage_cases();
  Stages stages(GetParam() ? all : std::vector<StageCase>{all.front(), all.back()});
  stages.split(GetParam());
  for (size_t s = 0; s < stages.count(); ++s) {
    const auto& l = stages.layout(s);
    SCOPED_TRACE(named({l.p, l.n}));
    const Rows x = stages.x(s), m = stages.next_m(s), g = stages.g(s);
    const Rows h1 = stages.piece(s, kH1), h2 = stages.piece(s, kH2), m1 = stages.piece(s, kM1);
    for (size_t i = 0; i < static_cast<size_t>(l.side); ++i) {
      if (i >= x.size()) {
        for (size_t j = 0; j < static_cast<size_t>(l.ld); ++j) {
          ASSERT_EQ(h1[i][j], 0);
          ASSERT_EQ(m1[i][j], 0);
        }
        continue;
      }
      const auto& sums = stages.row_sums(s, static_cast<int>(i));
      EXPECT_NEAR(sums.x2, inner(x[i], x[i]), 1e-5);
      EXPECT_NEAR(sums.g2, inner(g[i], g[i]), 1e-5 * inner(g[i], g[i]));
      EXPECT_NEAR(sums.m2, inner(m[i], m[i]), 1e-5 * inner(m[i], m[i]));
      const double scale = 1 / static_cast<double>(sums.inverse_scale);
      EXPECT_EQ(scale, std::exp2(std::round(std::log2(scale)))) << "a power of two";
      double largest = 0;
      for (size_t j = 0; j < static_cast<size_t>(l.ld); ++j) {
        if (j >= x[i].size()) {
          ASSERT_EQ(h1[i][j], 0);
          ASSERT_EQ(h2[i][j], 0);
          ASSERT_EQ(m1[i][j], 0);
          continue;
        }
        ASSERT_NEAR(h1[i][j] / 64 + h2[i][j] / (64.0 * 2048), x[i][j], 4e-7 * std::fabs(x[i][j]) + 1e-11);
        ASSERT_NEAR(m1[i][j] / scale, m[i][j],
                    5e-4 * std::fabs(m[i][j]) + 6e-8 / scale + 1e-7 * std::fabs(g[i][j]));
        largest = std::max(largest, std::fabs(m1[i][j]));
      }
      EXPECT_LT(largest, 65504);
      EXPECT_GE(largest, 8) << "of the halves' range little is used";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Staged, SplitRows, testing::Bool());

TEST(Stages, NormalPartIsTheFormulasWhateverThePaddingHolds) {
  Stages stages(stage_cases());
  stages.split(true);
  stages.find_normal();
  EXPECT_EQ(stages.skipped, 0);
  for (size_t s = 0; s < stages.count(); ++s) {
    const auto& l = stages.layout(s);
    SCOPED_TRACE(named({l.p, l.n}));
    const Rows x = stages.x(s), m = stages.next_m(s);
    const Rows gram = product(x, x), overlap = product(x, m);
    const Rows e = stages.floats(s, &Layout::e), sigma = stages.halves(s, &Layout::sigma);
    expect_zero_padding(e, l.p);
    expect_zero_padding(sigma, l.p);
    const auto& decision = stages.state(s).decision;
    EXPECT_EQ(decision.sound, 1);
    const double norm = std::sqrt(squared_norm(m));
    double drift = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < x.size(); ++j) {
        const double expected = gram[i][j] - (i == j);
        drift += expected * expected;
        ASSERT_NEAR(e[i][j], expected, 3e-6);
        ASSERT_NEAR(sigma[i][j] / static_cast<double>(decision.m_scale),
                    0.5 * (overlap[i][j] + overlap[j][i]), 2e-3 * norm);
      }
    }
    EXPECT_NEAR(std::sqrt(stages.sum_of_pairs(s, &PairNorms::e2)), std::sqrt(drift), 1e-4);
    double sigma2 = 0;
    for (const auto& row : sigma) sigma2 += inner(row, row);
    const double found = std::sqrt(stages.sum_of_pairs(s, &PairNorms::sigma2));
    EXPECT_NEAR(found, std::sqrt(sigma2) / static_cast<double>(decision.m_scale), 1e-3 * found);
  }
}

TEST(Stages, TangentPartIsTheFormulasInUnitsOfMu) {
  Stages stages(stage_cases());
  stages.split(true);
  stages.find_normal();
  std::vector<double> drift;
  std::vector<Rows> before;
  for (size_t s = 0; s < stages.count(); ++s) {
    drift.push_back(stages.sum_of_pairs(s, &PairNorms::e2));
    before.push_back(stages.next_m(s));
  }
  stages.project();
  stages.find_tangent();
  for (size_t s = 0; s < stages.count(); ++s) {
    const auto& l = stages.layout(s);
    SCOPED_TRACE(named({l.p, l.n}));
    Rows h1 = stages.piece(s, kH1), m1 = stages.piece(s, kM1);
    h1.resize(static_cast<size_t>(l.p));
    m1.resize(static_cast<size_t>(l.p));
    EXPECT_EQ(stages.state(s).decision.frozen, 0);
    const double scale = static_cast<double>(stages.state(s).decision.m_scale);
    const double norm = std::sqrt(squared_norm(m1)) / scale;
    const double mu = norm > 0 ? std::exp2(std::ceil(std::log2(norm) + 1e-5)) : 1;
    const Rows overlap = product(h1, m1), gram = product(m1, m1);
    const Rows st = stages.halves(s, &Layout::st), omega = stages.halves(s, &Layout::omega),
               z = stages.halves(s, &Layout::z), t = stages.floats(s, &Layout::t_wide);
    for (const auto* matrix : {&st, &omega, &z, &t}) expect_zero_padding(*matrix, l.p);
    double omega2 = 0, z2 = 0;
    for (size_t i = 0; i < h1.size(); ++i) {
      for (size_t j = 0; j < h1.size(); ++j) {
        const double s_ij = overlap[i][j] / (64 * scale * mu), s_ji = overlap[j][i] / (64 * scale * mu);
        const double skew = 0.5 * (s_ij - s_ji), normal = 0.5 * (s_ij + s_ji);
        omega2 += skew * skew;
        z2 += normal * normal;
        // A half has 11 bits, and its smallest step is 2⁻²⁴.
        const auto near = [&](double stored, double expected) {
          return std::fabs(stored / 16384 - expected) <= 5e-4 * std::fabs(expected) + 1e-6;
        };
        ASSERT_TRUE(near(st[i][j], s_ji)) << i << " " << j;
        ASSERT_TRUE(near(omega[i][j], skew)) << i << " " << j;
        ASSERT_TRUE(near(z[i][j], normal)) << i << " " << j;
        ASSERT_NEAR(t[i][j], gram[i][j] / (scale * mu) / (scale * mu), 1e-5);
        ASSERT_LE(std::fabs(st[i][j]), 1.001 * 16384) << "entries are at most 1 in units of μ";
      }
    }
    EXPECT_NEAR(stages.sum_of_pairs(s, &PairNorms::omega2), omega2, 1e-4 * omega2 + 1e-9);
    EXPECT_NEAR(stages.sum_of_pairs(s, &PairNorms::z2), z2, 1e-4 * z2 + 1e-9);
    EXPECT_EQ(stages.sum_of_pairs(s, &PairNorms::e2), drift[s]) << "the tangent part leaves ‖E‖² alone";
    // The projection M − Σ x leaves −½(ΣE + EΣ) of the normal part, and what rounding adds.
    EXPECT_LT(std::sqrt(z2) * mu, (1.02 * std::sqrt(drift[s]) + 1e-3) * std::sqrt(squared_norm(before[s])));
  }
}

}  // namespace
