#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

// The kernels between the first products of a mixed step and its projection, their own code run on the CPU
// thread by thread: E and Σ against the formulas in double, and which matrices may move. gpu_test has
// the whole step on a GPU.
#include "src/cuda/normal_part.cu"

namespace mixed_step_kernels_test {

using namespace stiefel::cuda;
using namespace stiefel::cuda::ampere;

TEST(Half, IsTheNearestOfElevenBits) {
  EXPECT_EQ(__float2half_rn(1.0f).bits, 0x3c00);
  EXPECT_EQ(__float2half_rn(-2.0f).bits, 0xc000);
  EXPECT_EQ(__float2half_rn(65504.0f).bits, 0x7bff);
  EXPECT_EQ(__float2half_rn(65520.0f).bits, 0x7c00);
  EXPECT_EQ(__float2half_rn(0x1p-24f).bits, 1);
  EXPECT_EQ(__float2half_rn(0x1.ff8p-15f).bits, 0x3ff);   // the largest subnormal number
  EXPECT_EQ(__float2half_rn(1 + 0x1p-11f).bits, 0x3c00);  // a tie, to the even
  EXPECT_EQ(__float2half_rn(1 + 0x1.8p-10f).bits, 0x3c02);
  for (int bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(__float2half_rn(__half2float({static_cast<uint16_t>(bits)})).bits, bits);
  }
}

float half(float value) { return __half2float(__float2half_rn(value)); }

/// A matrix with its momentum, as the first two launches of a step leave them.
class OneMatrix {
 public:
  OneMatrix(int p, int n, unsigned seed) : p_(p), n_(n), x_(size()), m_(size()), g2_(p, 1.0f) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (auto& value : x_) value = static_cast<float>(normal(random));
    for (auto& value : m_) value = static_cast<float>(normal(random));
    orthonormalize();
  }

  std::vector<float>& x() { return x_; }
  std::vector<float>& squared_gradients() { return g2_; }  // of each row
  double v = 0.25, k = 3;

  /// Runs `normal_part`, and what the tangent part's first block does.
  void run(bool adam) {
    lay_out();
    first_products();
    Recipe recipe{};
    recipe.beta1 = 0.9;
    recipe.beta2 = 0.99;
    recipe.eps = 1e-8;
    recipe.adam = adam;
    recipe.farthest = 0.5;
    recipe.skipped = &skipped;
    recipe.off_manifold = &off_manifold;
    cuda_on_cpu::run(dim3(static_cast<unsigned>(pairs_list_.size())), kPairThreads,
                     [&] { normal_part(context_, pairs_list_.data()); });
    cuda_on_cpu::run(dim3(1), 32, [&] { update_matrix_state(context_, 0, layout_, recipe); });
  }

  int64_t skipped = 0, off_manifold = 0;
  const Decision& state() const { return state_.decision; }
  double e(int i, int j) const {
    return reinterpret_cast<const float*>(workspace_.data() + layout_.e)[i * layout_.side + j];
  }
  double sigma(int i, int j) const {
    const auto* halves = reinterpret_cast<const __half*>(workspace_.data() + layout_.sigma);
    return __half2float(halves[swizzled_index(i, j, layout_.side / kBlockSide)]);
  }
  double found_drift() const {
    double sum = 0;
    for (const auto& pair : pairs_) sum += pair.e2;
    return std::sqrt(sum);
  }

  /// Σ_k a(i, k)·b(j, k) in double.
  double overlap(const std::vector<float>& a, int i, const std::vector<float>& b, int j) const {
    double sum = 0;
    for (int k_ = 0; k_ < n_; ++k_) sum += static_cast<double>(a[at(i, k_)]) * b[at(j, k_)];
    return sum;
  }
  const std::vector<float>& m() const { return m_; }

 private:
  size_t size() const { return static_cast<size_t>(p_) * static_cast<size_t>(n_); }
  size_t at(int i, int j) const {
    return static_cast<size_t>(i) * static_cast<size_t>(n_) + static_cast<size_t>(j);
  }

  void orthonormalize() {  // Gram and Schmidt, twice
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < p_; ++i) {
        for (int j = 0; j < i; ++j) {
          const auto along = static_cast<float>(overlap(x_, i, x_, j));
          for (int c = 0; c < n_; ++c) x_[at(i, c)] -= along * x_[at(j, c)];
        }
        const auto length = static_cast<float>(std::sqrt(overlap(x_, i, x_, i)));
        for (int c = 0; c < n_; ++c) x_[at(i, c)] /= length;
      }
    }
  }

  void lay_out() {
    layout_ = {};
    layout_.p = p_;
    layout_.n = n_;
    layout_.side = (p_ + kSmallSide - 1) / kSmallSide * kSmallSide;
    const int64_t squared = int64_t{layout_.side} * layout_.side;
    layout_.e = 0;
    layout_.sigma = 4 * squared;
    workspace_.assign(static_cast<size_t>(6 * squared), 0);
    layout_.drift = {0, 1, 1};
    layout_.rest = {1, 1, 0};
    layout_.first_overlap = {2, 1, 0};
    pairs_list_.clear();
    for (int i = 0; i < layout_.side / kSmallSide; ++i) {
      for (int j = 0; j <= i; ++j) pairs_list_.push_back({0, i, j, 0});
    }
    pairs_.assign(pairs_list_.size(), {NAN, NAN, NAN, NAN, NAN, {}});
    rows_.assign(static_cast<size_t>(layout_.side), {NAN, NAN, NAN, NAN});
    slabs_.assign(size_t{3} * kTileSide * kTileSide, NAN);
    state_ = {};
    state_.decision.frozen = 7;
    matrix_ = {};
    matrix_.v = &v;
    matrix_.k = &k;
    context_ = {&layout_, workspace_.data(), &matrix_,      &state_, rows_.data(),
                nullptr,  pairs_.data(),     slabs_.data(), false};
  }

  /// H₁H₁ᵀ, H₂H₁ᵀ and M₁H₁ᵀ, and the sums of squares of rows.
  void first_products() {
    std::vector<float> h1(size()), h2(size()), m1(size());
    for (int i = 0; i < p_; ++i) {
      const double mm = overlap(m_, i, m_, i);
      const float scale =
          power_below(16 * std::sqrt(static_cast<float>(n_)) / std::sqrt(static_cast<float>(mm)));
      for (int j = 0; j < n_; ++j) {
        const size_t here = at(i, j);
        h1[here] = half(x_[here] * kXScale);
        h2[here] = half((x_[here] * kXScale - h1[here]) * kRestScale);
        m1[here] = half(m_[here] * scale);
      }
      rows_[static_cast<size_t>(i)] = {static_cast<float>(overlap(x_, i, x_, i)), g2_[static_cast<size_t>(i)],
                                       static_cast<float>(mm), 1 / scale};
    }
    const auto product = [&](int slab, const std::vector<float>& a) {
      for (int i = 0; i < p_; ++i) {
        for (int j = 0; j < p_; ++j) {
          slabs_[static_cast<size_t>((slab * kTileSide + i) * kTileSide + j)] =
              static_cast<float>(overlap(a, i, h1, j));
        }
      }
    };
    product(0, h1);
    product(1, h2);
    product(2, m1);
  }

  int p_, n_;
  std::vector<float> x_, m_, g2_;
  Layout layout_{};
  std::vector<char> workspace_;
  std::vector<TileIndex> pairs_list_;
  std::vector<PairNorms> pairs_;
  std::vector<RowSums> rows_;
  std::vector<float> slabs_;
  State state_{};
  Matrix matrix_{};
  Context context_{};
};

TEST(NormalPart, IsTheFormulas) {
  for (const auto& [p, n] : {std::pair{40, 90}, {70, 128}, {128, 200}, {1, 9}}) {
    OneMatrix matrix(p, n, 3);
    for (auto& value : matrix.x()) value *= 1.01f;  // a little off the manifold
    matrix.run(false);
    double drift = 0;
    for (int i = 0; i < p; ++i) {
      for (int j = 0; j < p; ++j) {
        const double e = matrix.overlap(matrix.x(), i, matrix.x(), j) - (i == j);
        drift += e * e;
        ASSERT_NEAR(matrix.e(i, j), e, 2e-6) << p << "×" << n << " " << i << " " << j;
        const double s = matrix.overlap(matrix.x(), i, matrix.m(), j),
                     across = matrix.overlap(matrix.x(), j, matrix.m(), i);
        const double unscaled = matrix.sigma(i, j) / matrix.state().m_scale;
        ASSERT_NEAR(unscaled, 0.5 * (s + across), 3e-3 * std::sqrt(n)) << p << "×" << n;
      }
    }
    EXPECT_NEAR(matrix.found_drift(), std::sqrt(drift), 1e-5 * (1 + std::sqrt(drift)));
    EXPECT_EQ(matrix.state().frozen, 0);
    EXPECT_EQ(matrix.skipped, 0);
  }
}

TEST(Decision, AMatrixOffTheManifoldStays) {
  const auto expect_off = [](const char* what, const std::function<void(std::vector<float>&, int)>& strike) {
    SCOPED_TRACE(what);
    OneMatrix matrix(70, 128, 5);
    strike(matrix.x(), 128);
    matrix.run(true);
    EXPECT_EQ(matrix.state().frozen, 1);
    EXPECT_EQ(matrix.skipped, 1);
    EXPECT_EQ(matrix.off_manifold, 1);
    EXPECT_EQ(matrix.v, 0.25);  // untouched
    EXPECT_EQ(matrix.k, 3);
  };
  expect_off("scaled", [](auto& x, int) {
    for (auto& value : x) value *= 5;
  });
  expect_off("a row twice", [](auto& x, int n) { std::copy_n(x.begin(), n, x.begin() + n); });
  expect_off("not a number", [](auto& x, int) { x[77] = NAN; });
  expect_off("infinite", [](auto& x, int) { x[77] = std::numeric_limits<float>::infinity(); });
  expect_off("zero", [](auto& x, int) { std::fill(x.begin(), x.end(), 0.0f); });
}

TEST(Decision, ABadGradientKeepsTheMatrixAndIsNoMatterOfTheManifold) {
  for (const float bad : {NAN, std::numeric_limits<float>::infinity(), 4e30f}) {
    OneMatrix matrix(70, 128, 6);
    matrix.squared_gradients()[66] = bad;
    matrix.run(true);
    EXPECT_EQ(matrix.state().frozen, 1);
    EXPECT_EQ(matrix.skipped, 1);
    EXPECT_EQ(matrix.off_manifold, 0);
    EXPECT_EQ(matrix.k, 3);
  }
}

TEST(Decision, AdamsNumbersAdvanceWithAMatrixThatMoves) {
  OneMatrix matrix(70, 128, 7);
  for (auto& value : matrix.x()) value *= 1.01f;  // ‖E‖ = 0.17
  matrix.run(true);
  EXPECT_EQ(matrix.state().frozen, 0);
  EXPECT_EQ(matrix.skipped, 0);
  const double v = 0.99 * 0.25 + 0.01 * 70;  // each row's squared gradient is 1
  EXPECT_NEAR(matrix.v, v, 1e-12);
  EXPECT_EQ(matrix.k, 4);
  EXPECT_NEAR(matrix.state().r, (1 - std::pow(0.9, 4)) * std::sqrt(v / (1 - std::pow(0.99, 4)) + 1e-8),
              1e-12);
}

TEST(Decision, WithoutMomentumThereIsNothingToCount) {
  OneMatrix matrix(40, 90, 8);
  matrix.run(false);
  EXPECT_EQ(matrix.state().r, 1);
  EXPECT_EQ(matrix.k, 3);
}

}  // namespace mixed_step_kernels_test
