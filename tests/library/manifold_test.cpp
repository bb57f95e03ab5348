#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <stiefel/testing.h>
#include <torch/torch.h>

#include <limits>

#include "tests/support.h"

// Reading weights as matrices, measuring and repairing them, the initialisers and the retraction helpers.

namespace manifold_test {

using at::Tensor;
using at::indexing::Slice;

const std::vector<at::ScalarType> kTypes{at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};

double roundoff(at::ScalarType type) { return c10::toRealValueType(type) == at::kDouble ? 1e-14 : 1e-6; }

double defect_of(const Tensor& weight, bool batched = false) {
  return stiefel::defect(weight, batched).max().item<double>();
}

/// ‖XᴴX − I‖ by plain loops in double: independent of everything under test.
double naive_defect(const Tensor& weight) {
  const auto w = weight.reshape({weight.size(0), -1}).to(at::kComplexDouble);
  const auto x = w.size(0) <= w.size(1) ? w.contiguous() : w.t().contiguous();
  const auto a = x.accessor<c10::complex<double>, 2>();
  double sum = 0;
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t j = 0; j < x.size(0); ++j) {
      c10::complex<double> dot = i == j ? -1.0 : 0.0;
      for (int64_t k = 0; k < x.size(1); ++k) dot += a[i][k] * std::conj(a[j][k]);
      sum += std::norm(dot);
    }
  }
  return std::sqrt(sum);
}

TEST(MatrixView, ReadsEveryLayoutInPlace) {
  const auto plain = torch::randn({8, 3, 5, 5});
  const auto last = plain.contiguous(at::MemoryFormat::ChannelsLast);
  const auto sliced = torch::randn({8, 3, 5, 10}).index({Slice(), Slice(), Slice(), Slice(0, 5)});
  const auto transposed = torch::randn({75, 8}).t();
  for (const auto& weight : {plain, last, transposed}) {
    const stiefel::MatrixView view(weight);
    EXPECT_EQ(view.p(), 8);
    EXPECT_EQ(view.n(), 75);
    EXPECT_TRUE(view(weight).is_alias_of(weight)) << weight.strides();
  }
  // Rows with gaps in them cannot be a view; the values must still be right.
  EXPECT_FALSE(stiefel::MatrixView(sliced)(sliced).is_alias_of(sliced));
  for (const auto& weight : {plain, last, sliced, transposed}) {
    EXPECT_NEAR(defect_of(weight), naive_defect(weight), 1e-9 * naive_defect(weight));
  }
}

TEST(MatrixView, WritesBackThroughACopy) {
  auto whole = torch::randn({8, 3, 5, 10});
  const auto kept = whole.index({Slice(), Slice(), Slice(), Slice(5, 10)}).clone();
  auto sliced = whole.index({Slice(), Slice(), Slice(), Slice(0, 5)});
  stiefel::orthonormalize_(sliced);
  EXPECT_LT(naive_defect(whole.index({Slice(), Slice(), Slice(), Slice(0, 5)})), 1e-5);
  EXPECT_TRUE(torch::equal(whole.index({Slice(), Slice(), Slice(), Slice(5, 10)}), kept));
}

TEST(MatrixView, TransposesTallWeightsAndStacks) {
  const auto tall = torch::randn({75, 8});
  EXPECT_EQ(stiefel::MatrixView(tall).p(), 8);
  EXPECT_TRUE(stiefel::MatrixView(tall)(tall).is_alias_of(tall));
  const auto stack = torch::randn({2, 3, 4, 9});
  const stiefel::MatrixView view(stack, /*batched=*/true);
  EXPECT_EQ(view.batch(), 6);
  EXPECT_EQ(view.p(), 4);
  EXPECT_EQ(view.batch_shape(), (std::vector<int64_t>{2, 3}));
  const auto each = stiefel::defect(stack, true);
  ASSERT_EQ(each.sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_NEAR(each[1][2].item<double>(), naive_defect(stack[1][2]), 1e-9);
}

TEST(MatrixView, RefusesVectors) {
  EXPECT_THROW(stiefel::defect(torch::randn({5})), c10::Error);
  EXPECT_THROW(stiefel::defect(torch::randn({0, 5})), c10::Error);
}

TEST(Orthonormalize, IsThePolarFactor) {
  for (const auto type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{6, 20}, {20, 6}, {7, 7}, {1, 9}, {9, 1}, {4, 2, 3, 3}}) {
      auto weight = torch::randn(shape, type);
      const auto before = weight.clone();
      stiefel::orthonormalize_(weight);
      EXPECT_LT(naive_defect(weight), 10 * roundoff(type));
      // The polar factor is what makes XᴴA Hermitian and positive.
      const auto x = stiefel::MatrixView(weight)(weight)[0];
      const auto h = at::matmul(x, stiefel::MatrixView(before)(before)[0].mH());
      EXPECT_LT((h - h.mH()).abs().max().item<double>(), 100 * roundoff(type));
      EXPECT_GT(std::get<0>(at::linalg_eigh(h)).min().item<double>(), 0);
    }
  }
}

TEST(Orthonormalize, RefusesWhatHasNoNearestPoint) {
  auto deficient = torch::randn({4, 10});
  deficient[3] = deficient[0] + deficient[1];
  try {
    stiefel::orthonormalize_(deficient);
    FAIL() << "a rank-deficient matrix was accepted";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank-deficient"), std::string::npos) << error.what();
  }
  auto zero = torch::zeros({3, 5});
  EXPECT_THROW(stiefel::orthonormalize_(zero), c10::Error);
  auto holes = torch::randn({3, 5});
  holes[0][0] = NAN;
  EXPECT_THROW(stiefel::orthonormalize_(holes), c10::Error);
}

TEST(Orthonormalize, NamesValuesThatAreNotFinite) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const bool everywhere : {true, false}) {
      auto weight = torch::randn({3, 4}, at::kDouble);
      (everywhere ? weight : weight[1][2]).fill_(value);
      const auto before = weight.clone();
      const auto message = support::error_of([&] { stiefel::orthonormalize_(weight); });
      EXPECT_NE(message.find("a matrix of shape [3, 4] holds values that are not finite"), std::string::npos)
          << message;
      EXPECT_TRUE(torch::equal(weight.nan_to_num(), before.nan_to_num()));
      const auto parameter = weight.clone().requires_grad_();
      EXPECT_NE(support::error_of([&] {
                  stiefel::CayleySGD({parameter}, stiefel::CayleySGDOptions(0.1));
                }).find("not finite"),
                std::string::npos);
    }
  }
}

TEST(Tangent, ProjectionIsTangentIdempotentAndOrthogonal) {
  for (const auto type : {at::kDouble, at::kComplexDouble}) {
    for (const auto& shape : {std::vector<int64_t>{5, 12}, {12, 5}, {6, 6}, {1, 4}, {5, 2, 2, 3}}) {
      const auto x = stiefel::testing::random_point(torch::empty(shape, type));
      const auto z = torch::randn(shape, type);
      const auto t = stiefel::project_tangent(x, z);
      const stiefel::MatrixView view(x);
      const auto s = at::matmul(view(x)[0], view(t)[0].mH());
      EXPECT_LT((s + s.mH()).abs().max().item<double>(), 1e-14);
      EXPECT_LT((stiefel::project_tangent(x, t) - t).abs().max().item<double>(), 1e-14);
      // Re⟨z − t, any tangent vector⟩ = 0
      const auto other = stiefel::project_tangent(x, torch::randn(shape, type));
      EXPECT_NEAR(at::real((z - t).conj() * other).sum().item<double>(), 0, 1e-12);
    }
  }
}

TEST(Init, EveryInitializerIsOrthonormal) {
  for (const auto type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{6, 20}, {20, 6}, {8, 8}, {1, 3}, {4, 2, 3, 3}}) {
      auto weight = torch::empty(shape, type);
      EXPECT_LT(naive_defect(stiefel::init::haar_(weight)), 10 * roundoff(type));
      EXPECT_EQ(naive_defect(stiefel::init::identity_(weight)), 0);
    }
    auto square = torch::empty({16, 16}, type);
    EXPECT_LT(naive_defect(stiefel::init::hadamard_(square)), 10 * roundoff(type));
    EXPECT_LT((square.abs() - 0.25).abs().max().item<double>(), 1e-7);
    for (const int64_t n : {1, 2, 7, 16}) {
      auto blocks = torch::empty({n, n}, type);
      EXPECT_LT(naive_defect(stiefel::init::block_rotation_(blocks)), 10 * roundoff(type)) << n;
    }
  }
  auto stack = torch::empty({3, 5, 9}, at::kDouble);
  EXPECT_LT(defect_of(stiefel::init::haar_(stack, true), true), 1e-14);
  EXPECT_GT((stack[0] - stack[1]).abs().max().item<double>(), 0.01);
}

TEST(Init, HaarIsUniform) {
  // Under the Haar measure E x_ij = 0 and E |x_ij|² = 1/n; LAPACK's raw Q has a diagonal of one sign.
  auto stack = torch::empty({4000, 3, 3}, at::kDouble);
  stiefel::init::haar_(stack, true);
  EXPECT_LT(stack.mean(0).abs().max().item<double>(), 0.05);
  EXPECT_LT((stack.square().mean(0) - 1.0 / 3).abs().max().item<double>(), 0.03);
}

TEST(Init, ErrorsNameTheShape) {
  auto wide = torch::empty({4, 8});
  EXPECT_THROW(stiefel::init::hadamard_(wide), c10::Error);
  EXPECT_THROW(stiefel::init::block_rotation_(wide), c10::Error);
  auto odd = torch::empty({12, 12});
  EXPECT_THROW(stiefel::init::hadamard_(odd), c10::Error);
}

TEST(Retraction, CayleyPassesTheHelpers) {
  for (const auto type : {at::kDouble, at::kComplexDouble}) {
    for (const auto& shape : {std::vector<int64_t>{4, 9}, {9, 4}, {5, 5}, {1, 6}, {3, 4, 9}}) {
      const auto like = torch::empty(shape, type);
      for (const bool exact : {false, true}) {
        stiefel::CayleyOptions options;
        options.exact = exact;
        const auto report = stiefel::testing::check_retraction(
            [&](const Tensor& x, const Tensor& t) { return stiefel::cayley_retraction(x, t, options, true); },
            like);
        EXPECT_TRUE(report.ok(1e-12)) << shape << " exact " << exact << ": " << report.describe();
      }
    }
  }
}

TEST(Retraction, HelpersCatchWhatIsNoRetraction) {
  const auto like = torch::empty({4, 9}, at::kDouble);
  const auto check = [&](const stiefel::testing::Retraction& r) {
    return stiefel::testing::check_retraction(r, like).ok();
  };
  EXPECT_FALSE(check([](const Tensor& x, const Tensor& t) { return x + t; })) << "leaves the manifold";
  EXPECT_FALSE(check([](const Tensor& x, const Tensor&) { return x; })) << "does not move";
  EXPECT_FALSE(check([](const Tensor& x, const Tensor& t) {
    return stiefel::cayley_retraction(x, t * 1.01);
  })) << "moves too far";
  EXPECT_FALSE(check([](const Tensor& x, const Tensor& t) { return stiefel::cayley_retraction(x, t).neg(); }))
      << "does not start at X";
  EXPECT_FALSE(check([](const Tensor& x, const Tensor&) { return x * NAN; }));
}

}  // namespace manifold_test
