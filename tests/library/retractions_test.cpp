#include "retraction_cases.h"

// Each retraction against its definition, and against what any retraction must be.

namespace retractions_test {

using at::Tensor;
using cases::Case;
using cases::kTypes;
using stiefel::Descent;

/// Wide, tall, square, one vector, n < 2p, and stacks of both kinds.
const std::vector<std::vector<int64_t>> kShapes{{4, 11}, {11, 4}, {6, 6},       {1, 7},
                                                {7, 1},  {5, 8},  {2, 3, 4, 9}, {3, 9, 4}};

double apart(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

double length(const Tensor& t) { return t.abs().square().sum().sqrt().item<double>(); }

/// A row batch (B, p, n) of orthonormal matrices, random directions of which about half is normal to the
/// manifold, and a rate for each matrix that makes l‖ξ‖ = `turn`, half of it, …
struct Sample {
  Tensor x, d;
  std::vector<double> rates;
  std::vector<Tensor> tall_x, tall_xi;  // X and ξ of each matrix, n×p

  Sample(int64_t p, int64_t n, at::ScalarType type, double turn, double off = 0) {
    const int64_t batch = 3;
    x = reference::orthonormal_weight({batch, p, n}, true, type);
    x = x + off * torch::randn_like(x);
    d = torch::randn_like(x);
    for (int64_t i = 0; i < batch; ++i) {
      tall_x.push_back(x[i].mH().clone());
      tall_xi.push_back(cases::project(tall_x[i], d[i].mH()));
      const double reach = length(tall_xi[i]);
      rates.push_back(reach > 1e-12 ? turn / (1 + i) / reach : 0.1);
    }
  }

  Descent descent(bool keep) const {
    return {x.clone(), d.clone(), keep, torch::tensor(rates, at::kDouble).view({-1, 1, 1})};
  }
};

TEST(Retraction, GoesWhereItsDefinitionSays) {
  for (const auto& one : cases::all()) {
    for (const auto type : kTypes) {
      for (const auto& shape : kShapes) {
        for (const double turn : {0.0, 0.05, 0.6, 3.0}) {
          SCOPED_TRACE(::testing::Message() << one.name << " " << type << " " << shape << " turn " << turn);
          const auto point = reference::orthonormal_weight(shape, true, type);
          const auto raw = torch::randn_like(point);
          const bool wide = shape.end()[-2] <= shape.end()[-1];
          const auto x = wide ? point.mH() : point;
          const auto d = wide ? raw.mH() : raw;
          auto xi = d - at::matmul(x, at::matmul(x.mH(), d) + at::matmul(d.mH(), x)) / 2;
          xi = xi * (turn / std::max(length(xi), 1e-6));
          const auto tangent = (wide ? xi.mH() : xi).clone();
          const auto same_point = point.clone(), same_tangent = tangent.clone();
          const auto result = one.retract(point, tangent);
          EXPECT_TRUE(torch::equal(point, same_point));
          EXPECT_TRUE(torch::equal(tangent, same_tangent));
          ASSERT_EQ(result.sizes(), point.sizes());
          const auto from = reference::tall(point, true), along = reference::tall(tangent, true);
          const auto to = reference::tall(result, true);
          for (size_t i = 0; i < to.size(); ++i) {
            EXPECT_LT(apart(to[i], one.definition(from[i], along[i], -1)), 1e-12);
            EXPECT_LT(reference::defect(to[i]), 1e-13);
          }
        }
      }
    }
  }
}

TEST(Retraction, TheShapesMustAgree) {
  const auto x = support::point({3, 5}).detach();
  for (const auto& one : cases::all()) {
    EXPECT_ERROR(one.retract(x, torch::zeros({3, 4}, at::kDouble)), "[3, 4]");
  }
}

TEST(Descent, ProjectsRawDirectionsAndKeepsAMomentumTangent) {
  for (const auto& one : cases::every()) {
    for (const auto type : kTypes) {
      for (const auto& [p, n] : std::vector<std::pair<int64_t, int64_t>>{{4, 11}, {6, 6}, {1, 7}, {5, 8}}) {
        for (const double turn : {0.05, 0.6, 3.0}) {
          for (const bool keep : {false, true}) {
            SCOPED_TRACE(::testing::Message()
                         << one.name << " " << type << " " << p << "×" << n << " turn " << turn << keep);
            const Sample sample(p, n, type, turn);
            const auto step = sample.descent(keep);
            one.descend(step);
            for (size_t i = 0; i < sample.rates.size(); ++i) {
              const auto index = static_cast<int64_t>(i);
              const auto expected = one.definition(sample.tall_x[i], sample.tall_xi[i], sample.rates[i]);
              EXPECT_LT(apart(step.x[index].mH(), expected), 1e-12);
              if (keep) {
                EXPECT_LT(apart(step.d[index].mH(), sample.tall_xi[i]), 1e-13);
              }
            }
            if (!keep) {
              EXPECT_TRUE(torch::equal(step.d, sample.d)) << "a gradient was changed";
            }
          }
        }
      }
    }
  }
}

TEST(Descent, IsometriesKeepTheGramMatrixOfADriftedPointAndTheOthersDrawItIn) {
  for (const auto& one : cases::all()) {
    for (const auto type : kTypes) {
      for (const auto& [p, n] : std::vector<std::pair<int64_t, int64_t>>{{4, 11}, {6, 6}, {1, 7}, {5, 8}}) {
        for (const bool keep : {false, true}) {
          SCOPED_TRACE(::testing::Message() << one.name << " " << type << " " << p << "×" << n << keep);
          const Sample sample(p, n, type, 0.6, /*off=*/1e-3);
          const auto step = sample.descent(keep);
          one.descend(step);
          for (size_t i = 0; i < sample.rates.size(); ++i) {
            const auto& before = sample.tall_x[i];
            const Tensor after = step.x[static_cast<int64_t>(i)].mH();
            if (one.repairs) {
              EXPECT_LT(reference::defect(after), 0.01 * reference::defect(before));
            } else {
              EXPECT_LT(apart(after.mH().mm(after), before.mH().mm(before)), 1e-13);
            }
          }
        }
      }
    }
  }
}

TEST(WenYin, EqualsTheDenseCayleyTransformOfADriftedPointToo) {
  // U = [A, X] and V = [X, −A] make the paper's W for any X.
  for (const auto type : kTypes) {
    for (const auto& [p, n] : std::vector<std::pair<int64_t, int64_t>>{{4, 11}, {6, 6}, {1, 7}, {5, 8}}) {
      const Sample sample(p, n, type, 0.6, /*off=*/0.03);
      for (const bool closed : {false, true}) {
        const auto step = sample.descent(false);
        if (closed) {
          stiefel::descend_(stiefel::CayleyClosed(), step);
        } else {
          stiefel::descend_(stiefel::WenYin(), step);
        }
        for (size_t i = 0; i < sample.rates.size(); ++i) {
          const auto index = static_cast<int64_t>(i);
          const auto w = reference::generator(sample.tall_x[i], sample.d[index].mH());
          const auto expected = reference::closed_form(sample.tall_x[i], w, -sample.rates[i]);
          EXPECT_LT(apart(step.x[index].mH(), expected), 1e-12) << type << " " << p << "×" << n << closed;
        }
      }
    }
  }
}

TEST(Qr, HasAnUpperTriangularFactorWithAPositiveDiagonal) {
  for (const auto& policy : {stiefel::Qr(), cases::cholesky_qr()}) {
    for (const auto type : kTypes) {
      for (const double turn : {0.3, 3.0}) {
        const Sample sample(5, 9, type, turn);
        const auto step = sample.descent(false);
        stiefel::descend_(policy, step);
        for (size_t i = 0; i < sample.rates.size(); ++i) {
          const Tensor q = step.x[static_cast<int64_t>(i)].mH();
          const auto y = sample.tall_x[i] - sample.rates[i] * sample.tall_xi[i];
          const auto r = q.mH().mm(y);
          EXPECT_LT(r.tril(-1).abs().max().item<double>(), 1e-13);
          EXPECT_LT(apart(q.mm(r), y), 1e-13);
          const auto diagonal = r.diagonal();
          EXPECT_LT(apart(diagonal, diagonal.abs()), 1e-13) << "not positive real";
        }
      }
    }
  }
}

TEST(Polar, NewtonSchulzTakesAsManyRoundsAsItIsAllowed) {
  for (const auto type : kTypes) {
    const auto error = [&](int64_t rounds, double turn) {
      torch::manual_seed(5);
      const Sample sample(5, 9, type, turn);
      const auto step = sample.descent(false);
      stiefel::descend_(cases::newton_schulz(rounds), step);
      return apart(step.x[0].mH(), cases::polar(sample.tall_x[0], sample.tall_xi[0], sample.rates[0]));
    };
    EXPECT_GT(error(2, 3), 1e-3);
    EXPECT_GT(error(1, 3), error(2, 3));
    EXPECT_GT(error(2, 3), error(4, 3));
    EXPECT_LT(error(12, 3), 1e-13);
    EXPECT_LT(error(12, 20), 1e-12) << "rounds enough for steps as long as these";
    EXPECT_LT(error(3, 1e-2), 1e-13) << "short steps take few";
  }
}

TEST(Polar, FloatSquaresConverge) {
  // All singular values of X − lξ are near one another, which LAPACK's float iteration does not always bear.
  for (int trial = 0; trial < 60; ++trial) {
    const auto x = support::point({256, 256}, at::kFloat).detach();
    const auto xi = stiefel::testing::random_tangent(x) * 0.1;
    EXPECT_LT(support::defect(stiefel::Polar()(x, xi)), 3e-5);
    EXPECT_LT(support::defect(cases::newton_schulz()(x, xi)), 3e-5);
  }
}

TEST(CheckRetraction, PassesAllOfThem) {
  for (const auto& one : cases::all()) {
    for (const auto type : kTypes) {
      for (const auto& shape : kShapes) {
        const auto report = stiefel::testing::check_retraction(one.retract, torch::empty(shape, type));
        EXPECT_TRUE(report.ok()) << one.name << " " << type << " " << shape << ": " << report.describe();
      }
    }
  }
}

TEST(CheckRetraction, FailsMapsThatAreNone) {
  const auto like = torch::empty({4, 9}, at::kDouble);
  const auto check = [&](const stiefel::testing::Retraction& map) {
    return stiefel::testing::check_retraction(map, like);
  };
  const auto straight = check([](const Tensor& x, const Tensor& xi) { return x + xi; });
  EXPECT_FALSE(straight.ok());
  EXPECT_GT(straight.off_manifold, 1e-3);
  // LAPACK's Q has signs of its own: at ξ = 0 it is not X.
  const auto lapack = check([](const Tensor& x, const Tensor& xi) {
    return std::get<0>(at::linalg_qr((x + xi).mH())).mH().clone();
  });
  EXPECT_FALSE(lapack.ok());
  EXPECT_GT(lapack.at_zero, 1);
  const auto slow = check([](const Tensor& x, const Tensor& xi) { return stiefel::Polar()(x, xi * 0.9); });
  EXPECT_FALSE(slow.ok());
  EXPECT_NEAR(slow.derivative, 0.1, 1e-3);
}

}  // namespace retractions_test
