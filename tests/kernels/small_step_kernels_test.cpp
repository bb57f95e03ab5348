#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

// The kernels of the small step, their own code run on the CPU thread by thread, against the paper's formulas
// in double with the dense n×n matrix W. gpu_test has them on a GPU, within LibTorch.
#include "src/cuda/float_products.cuh"
#include "src/cuda/half_products.cuh"
#include "src/cuda/small_blocks.cuh"

namespace stiefel::cuda {

SmallForms small_forms_of_halves() { return small_forms<80>(HalfBlocks<HalfProducts>{}); }
SmallForms small_forms_of_floats() { return small_forms<75>(FloatBlocks<FloatProducts>{}); }

}  // namespace stiefel::cuda

namespace small_step_kernels_test {

using namespace stiefel::cuda;

constexpr SmallCard kAmpere{86, 99 << 10}, kTuring{75, 64 << 10}, kHopper{90, 227 << 10};

// ---- The reference, in double ----

/// A p×n matrix, row-major.
struct Dense {
  int rows, columns;
  std::vector<double> data;

  Dense(int rows_, int columns_)
      : rows(rows_), columns(columns_), data(static_cast<size_t>(rows_) * static_cast<size_t>(columns_)) {}
  double* row(int i) { return data.data() + static_cast<size_t>(i) * static_cast<size_t>(columns); }
  const double* row(int i) const { return const_cast<Dense*>(this)->row(i); }
};

/// a + by·b.
Dense sum(Dense a, double by, const Dense& b) {
  for (size_t i = 0; i < a.data.size(); ++i) a.data[i] += by * b.data[i];
  return a;
}
double norm(const Dense& a) {
  double squared = 0;
  for (const double value : a.data) squared += value * value;
  return std::sqrt(squared);
}
double distance(const Dense& a, const Dense& b) { return norm(sum(a, -1, b)); }

Dense product(const Dense& a, const Dense& b) {
  Dense result(a.rows, b.columns);
  for (int i = 0; i < a.rows; ++i) {
    for (int k = 0; k < a.columns; ++k) {
      const double by = a.row(i)[k];
      for (int j = 0; j < b.columns; ++j) result.row(i)[j] += by * b.row(k)[j];
    }
  }
  return result;
}
Dense transposed(const Dense& a) {
  Dense result(a.columns, a.rows);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.columns; ++j) result.row(j)[i] = a.row(i)[j];
  }
  return result;
}

/// x xᵀ − I.
Dense drift(const Dense& x) {
  Dense e = product(x, transposed(x));
  for (int i = 0; i < x.rows; ++i) e.row(i)[i] -= 1;
  return e;
}
double defect(const Dense& x) { return norm(drift(x)); }

/// Newton's iteration.
Dense polar_factor(Dense y) {
  for (int round = 0; round < 40 && defect(y) > 1e-13; ++round) y = sum(y, -0.5, product(drift(y), y));
  return y;
}

struct Numbers {
  double v = 0, k = 0;
};

/// The paper's step with s = 2 of x, whose momentum is already decay·M + gain·G, and the polar factor of its
/// iterate. Returns α‖W‖_F/r.
double reference_step(Dense& x, Dense& m, double g_norm, const Recipe& recipe, Numbers& numbers) {
  double r = 1;
  if (recipe.adam) {
    numbers.k += 1;
    numbers.v = recipe.beta2 * numbers.v + (1 - recipe.beta2) * g_norm * g_norm;
    r = (1 - std::pow(recipe.beta1, numbers.k)) *
        std::sqrt(numbers.v / (1 - std::pow(recipe.beta2, numbers.k)) + recipe.eps);
  }
  // X = xᵀ, M = mᵀ: Ŵ = M Xᵀ − ½X(Xᵀ M Xᵀ), W = Ŵ − Ŵᵀ
  const Dense tall = transposed(x);
  const Dense hat =
      sum(product(transposed(m), x), -0.5, product(tall, product(product(x, transposed(m)), x)));
  const Dense w = sum(hat, -1, transposed(hat));
  m = transposed(product(w, tall));  // M ← W X
  const double length = norm(w) / r;
  const double alpha = std::min(*recipe.rate, 2 * recipe.q / (length + recipe.eps));
  const double tau = -alpha / r;
  Dense y = sum(tall, tau, transposed(m));                                          // Y⁰ = X + τM
  for (int i = 0; i < 2; ++i) y = sum(tall, tau / 2, product(w, sum(tall, 1, y)));  // X + (τ/2)W(X + Y)
  x = polar_factor(transposed(y));
  return alpha * length;
}

// ---- What is tested ----

enum class Storage { kRows, kColumns, kUnaligned };

/// A list of float matrices of one shape.
class Matrices {
 public:
  Matrices(Shape shape, int count, Storage storage)
      : row(storage == Storage::kColumns ? 1 : shape.n + (storage == Storage::kUnaligned ? 3 : 0)),
        column(storage == Storage::kColumns ? shape.p : 1),
        stack(static_cast<int64_t>(shape.p) * (shape.n + 3) + 1),
        shape_(shape),
        offset_(storage == Storage::kUnaligned ? 1 : 0),
        data_(static_cast<size_t>(stack * count) + 1, kUntouched) {}

  int row, column;
  int64_t stack;
  float* data() { return data_.data() + offset_; }
  float& at(int b, int i, int j) {
    return data()[b * stack + static_cast<int64_t>(i) * row + static_cast<int64_t>(j) * column];
  }
  Dense get(int b) {
    Dense result(shape_.p, shape_.n);
    for (int i = 0; i < shape_.p; ++i) {
      for (int j = 0; j < shape_.n; ++j) result.row(i)[j] = static_cast<double>(at(b, i, j));
    }
    return result;
  }
  void set(int b, const Dense& values) {
    for (int i = 0; i < shape_.p; ++i) {
      for (int j = 0; j < shape_.n; ++j) at(b, i, j) = static_cast<float>(values.row(i)[j]);
    }
  }
  /// Whether nothing was written between the matrices.
  bool gaps_untouched(int count) {
    size_t untouched = 0;
    for (const float value : data_) untouched += value == kUntouched ? 1 : 0;
    return untouched == data_.size() - static_cast<size_t>(shape_.p * shape_.n * count);
  }

 private:
  static constexpr float kUntouched = 12345.0f;
  Shape shape_;
  int offset_;
  std::vector<float> data_;
};

struct Case {
  Shape shape;
  Storage storage = Storage::kRows;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const char* storages[] = {"rows", "columns", "unaligned"};
  return out << c.shape.p << "×" << c.shape.n << " " << storages[static_cast<int>(c.storage)];
}

/// A stack of two matrices, and steps on them.
class Side {
 public:
  static constexpr int kCount = 2;

  Side(const Case& c, const SmallCard& card, double rate, unsigned seed = 1, int count = kCount)
      : shape(c.shape),
        x(c.shape, kCount, c.storage),
        m(c.shape, kCount, c.storage),
        g(c.shape, kCount, c.storage),
        form_(*find_form(c.shape, card)),
        random_(seed),
        rate_(rate),
        count_(count) {
    for (int b = 0; b < kCount; ++b) {
      Dense start = draw(1);
      for (double& value : start.data) value /= std::sqrt(3.0 * shape.n);
      if (shape.p == shape.n) start = sum(identity(), 0.3, sum(start, -1, transposed(start)));
      x.set(b, orthonormal(start));
      m.set(b, Dense(shape.p, shape.n));
    }
    recipe.decay = 0.9;
    recipe.gain = 1;
    recipe.q = 0.5;
    recipe.eps = 1e-8;
    recipe.beta1 = 0.9;
    recipe.beta2 = 0.99;
    recipe.farthest = 0.5;
    recipe.rate = &rate_;
    recipe.skipped = &skipped;
    recipe.off_manifold = &off_manifold;
  }
  Side(const Side&) = delete;

  Shape shape;
  Matrices x, m, g;
  Recipe recipe{};
  int64_t skipped = 0, off_manifold = 0;
  double v[kCount] = {}, k[kCount] = {};
  void set_rate(double rate) { rate_ = rate; }

  /// Gaussian entries, of the length given on average.
  Dense draw(double length) {
    Dense result(shape.p, shape.n);
    std::normal_distribution<double> normal(0, length / std::sqrt(static_cast<double>(shape.p * shape.n)));
    for (double& value : result.data) value = normal(random_);
    return result;
  }
  /// A x with A symmetric: what a step must take off.
  Dense draw_normal(int b, double length) {
    Dense a(shape.p, shape.p);
    std::normal_distribution<double> normal;
    for (int i = 0; i < shape.p; ++i) {
      for (int j = 0; j <= i; ++j) a.row(i)[j] = a.row(j)[i] = normal(random_);
    }
    const Dense result = product(a, x.get(b));
    return sum(Dense(shape.p, shape.n), length / norm(result), result);
  }
  void draw_gradients(double length) {
    for (int b = 0; b < kCount; ++b) g.set(b, draw(length));
  }

  void step() {
    SmallList list{1, count_, nullptr, {}};
    list.own[0] = stack();
    // Shared memory that nobody wrote is NaN, and what the kernel did not ask for is not its own.
    auto* shared = reinterpret_cast<unsigned char*>(cuda_on_cpu::dynamic_memory());
    std::fill_n(shared, cuda_on_cpu::kDynamicBytes, 0xff);
    cuda_on_cpu::run(dim3(static_cast<unsigned>(count_)), form_.threads, [&] { form_.kernel(list, recipe); });
    EXPECT_TRUE(std::all_of(shared + form_.shared_bytes, shared + cuda_on_cpu::kDynamicBytes,
                            [](unsigned char byte) { return byte == 0xff; }));
  }
  SmallStack stack() {
    SmallStack result = {x.data(), m.data(), g.data(), v,     k,        x.stack, m.stack, g.stack, x.row,
                         x.column, m.row,    m.column, g.row, g.column, shape.p, shape.n, kCount,  0};
    if (!recipe.adam) result.v = result.k = nullptr;
    return result;
  }

  /// A step, and how far it is from the reference's.
  struct Miss {
    double x = 0;       ///< beyond what float32 cannot tell apart, relative to the step
    double m = 0;       ///< relative to the momentum before the projection
    double v = 0;       ///< relative
    double defect = 0;  ///< ‖x xᵀ − I‖
    double turn = 0;    ///< α‖W‖/r
  };
  Miss compare() {
    std::vector<Dense> all_x, all_m;
    std::vector<double> turns, lengths, moves;
    Numbers numbers[kCount];
    for (int b = 0; b < kCount; ++b) {
      all_x.push_back(x.get(b));
      const Dense gradient = g.get(b);
      all_m.push_back(sum(sum(Dense(shape.p, shape.n), recipe.decay, m.get(b)), recipe.gain, gradient));
      lengths.push_back(norm(all_m.back()));
      numbers[b] = {v[b], k[b]};
      const Dense before = all_x.back();
      turns.push_back(reference_step(all_x.back(), all_m.back(), norm(gradient), recipe, numbers[b]));
      moves.push_back(distance(all_x.back(), before));
    }
    step();
    Miss worst;
    for (int b = 0; b < kCount; ++b) {
      const double rounding = 5e-7 * std::sqrt(static_cast<double>(shape.p));
      const auto take = [](double& to, double value) {
        to = value <= to ? to : value;  // NaN is taken
      };
      take(worst.x, std::max(0.0, distance(x.get(b), all_x[b]) - rounding) / (moves[b] + 1e-30));
      take(worst.m, distance(m.get(b), all_m[b]) / (lengths[b] + 1e-30));
      take(worst.defect, defect(x.get(b)));
      take(worst.turn, turns[b]);
      if (recipe.adam) {
        take(worst.v, std::fabs(v[b] - numbers[b].v) / (numbers[b].v + 1e-30));
        EXPECT_EQ(k[b], numbers[b].k);
      }
    }
    EXPECT_TRUE(x.gaps_untouched(kCount) && m.gaps_untouched(kCount));
    return worst;
  }

 private:
  Dense identity() const {
    Dense result(shape.p, shape.n);
    for (int i = 0; i < shape.p; ++i) result.row(i)[i] = 1;
    return result;
  }
  Dense orthonormal(Dense a) const {  // Gram and Schmidt, twice
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < a.rows; ++i) {
        double* row = a.row(i);
        for (int other = 0; other <= i; ++other) {
          double along = 0;
          for (int j = 0; j < a.columns; ++j) along += row[j] * a.row(other)[j];
          if (other == i) {
            for (int j = 0; j < a.columns; ++j) row[j] /= std::sqrt(along);
          } else {
            for (int j = 0; j < a.columns; ++j) row[j] -= along * a.row(other)[j];
          }
        }
      }
    }
    return a;
  }

  const SmallForm& form_;
  std::mt19937 random_;
  double rate_;
  int count_;
};

/// Every kernel on tensor cores, and the sizes around its limits.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{{{16, 64}},
                                     {{17, 33}},
                                     {{1, 5}},
                                     {{31, 32}},
                                     {{32, 32}, Storage::kColumns},
                                     {{64, 64}},
                                     {{1, 1}},
                                     {{13, 13}},
                                     {{30, 100}},
                                     {{60, 62}},
                                     {{50, 50}, Storage::kUnaligned},
                                     {{64, 100}},
                                     {{64, 240}},
                                     {{16, 64}, Storage::kColumns},
                                     {{48, 64}, Storage::kUnaligned}};
  return all;
}

void print(const char* what, const Case& c, const Side::Miss& miss) {
  ::testing::Test::RecordProperty(what, testing::PrintToString(c));
  std::printf("  %-12s %-18s α‖W‖ %.2f  x %.1e  m %.1e  ‖x xᵀ − I‖ %.1e\n", what,
              testing::PrintToString(c).c_str(), miss.turn, miss.x, miss.m, miss.defect);
}

/// Whether the kernel of a case on the card is one with tensor cores.
struct Kind {
  const char* name;
  SmallCard card;
};
class SmallStep : public ::testing::TestWithParam<Kind> {
 protected:
  const SmallCard& card() const { return GetParam().card; }
};

TEST_P(SmallStep, IsThePolarFactorOfThePapersIterate) {
  for (const auto& c : cases()) {
    if (find_form(c.shape, card()) == nullptr) continue;
    SCOPED_TRACE(testing::PrintToString(c));
    for (const bool adam : {false, true}) {
      if (adam && c.shape.n > 64) continue;
      Side side(c, card(), adam ? 0.05 : 0.15);
      side.recipe.adam = adam;
      if (adam) side.recipe.gain = 1 - side.recipe.beta1;
      Side::Miss miss;
      for (int step = 0; step < 2; ++step) {
        side.draw_gradients(1);
        miss = side.compare();
        EXPECT_LT(miss.x, 3e-3);
        EXPECT_LT(miss.m, 2e-3);
        EXPECT_LT(miss.v, 1e-5);
        EXPECT_LT(miss.defect, 1e-5);
      }
      if (!adam) print("a step", c, miss);
      EXPECT_EQ(side.skipped, 0);
    }
  }
}

TEST_P(SmallStep, TakesTheLargestMatrices) {
  for (const auto& c : {Case{{128, 128}}, {{100, 128}}, {{128, 128}, Storage::kColumns}}) {
    if (find_form(c.shape, card()) == nullptr) continue;
    SCOPED_TRACE(testing::PrintToString(c));
    Side side(c, find_form(c.shape, card())->p == 128 ? kHopper : card(), 0.15);
    side.draw_gradients(1);
    const auto miss = side.compare();
    print("a step", c, miss);
    EXPECT_LT(miss.x, 3e-3);
    EXPECT_LT(miss.m, 2e-3);
    EXPECT_LT(miss.defect, 1e-5);
  }
}

const std::vector<Case>& few_cases() {
  static const std::vector<Case> all{{{16, 64}}, {{31, 32}}, {{32, 32}}, {{30, 100}}, {{1, 5}}};
  return all;
}

TEST_P(SmallStep, TurnsAtTheCap) {
  for (const auto& c : few_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    Side side(c, card(), 1e6);
    Dense rank_one = side.draw(1);  // all of W in one plane: the truncation is at its worst
    for (int i = 1; i < c.shape.p; ++i) std::fill_n(rank_one.row(i), c.shape.n, 0.0);
    side.draw_gradients(1);
    side.g.set(0, rank_one);
    const auto miss = side.compare();
    print("at the cap", c, miss);
    EXPECT_NEAR(miss.turn, 1, 1e-3);
    EXPECT_LT(miss.x, 3e-3);
    EXPECT_LT(miss.defect, 1e-5);
  }
}

TEST_P(SmallStep, TakesOffALargeNormalPart) {
  for (const auto& c : few_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    for (const double rate : {0.02, 0.14, 0.47}) {
      Side side(c, card(), rate);
      for (int b = 0; b < Side::kCount; ++b) side.g.set(b, sum(side.draw(1), 1, side.draw_normal(b, 30)));
      const auto miss = side.compare();
      print("hostile", c, miss);
      // Rounding M to halves leaves 30·2⁻¹² of it in the direction.
      EXPECT_LT(miss.x, 3e-2);
      EXPECT_LT(miss.m, 1e-3);
      EXPECT_LT(miss.defect, 1e-5);
    }
  }
}

TEST_P(SmallStep, DrawsInAStartOffTheManifold) {
  for (const auto& c : few_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    for (const double off : {1e-3, 0.1}) {
      Side side(c, card(), 0.1);
      for (int b = 0; b < Side::kCount; ++b) side.x.set(b, sum(side.x.get(b), 1, side.draw(off)));
      side.draw_gradients(1);
      const auto miss = side.compare();
      print("off", c, miss);
      EXPECT_LT(miss.x, 2 * off);
      EXPECT_LT(miss.defect, 1e-5);
      EXPECT_EQ(side.skipped, 0);
    }
  }
}

TEST_P(SmallStep, StandsStillWhereTheRateIsZeroOrNothingPulls) {
  for (const auto& c : few_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    for (const bool pulled : {false, true}) {
      Side side(c, card(), pulled ? 0 : 0.1);
      for (int b = 0; b < Side::kCount; ++b) {
        side.g.set(b, pulled ? side.draw(1) : Dense(c.shape.p, c.shape.n));
      }
      const Dense before = side.x.get(1);
      side.step();
      EXPECT_LT(distance(side.x.get(1), before), 1e-6);
      EXPECT_EQ(side.skipped, 0);
    }
  }
}

TEST_P(SmallStep, LeavesAMatrixAloneThatMustNotMove) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  struct Strike {
    bool x;
    float value;
    int off_manifold;
  };
  for (const auto& c : {Case{{16, 64}}, {{32, 32}}}) {
    for (const auto& [at_x, value, off_manifold] : {Strike{false, kNaN, 0},
                                                    {false, kInfinity, 0},
                                                    {false, 1e30f, 0},
                                                    {true, kNaN, 1},
                                                    {true, -kInfinity, 1},
                                                    {true, 5, 1}}) {
      SCOPED_TRACE(testing::PrintToString(c) + " " + std::to_string(value));
      Side side(c, card(), 0.1);
      side.recipe.adam = true;
      side.draw_gradients(1);
      side.step();
      side.draw_gradients(1);
      (at_x ? side.x : side.g).at(1, c.shape.p / 2, 7) = value;
      const std::vector<float> x(side.x.data() + side.x.stack, side.x.data() + 2 * side.x.stack);
      const Dense m = side.m.get(1), free = side.x.get(0);
      const double v = side.v[1];
      side.step();
      EXPECT_EQ(side.skipped, 1);
      EXPECT_EQ(side.off_manifold, off_manifold);
      EXPECT_EQ(std::memcmp(x.data(), side.x.data() + side.x.stack, x.size() * sizeof(float)), 0);
      EXPECT_EQ(m.data, side.m.get(1).data);
      EXPECT_EQ(side.v[1], v);
      EXPECT_EQ(side.k[1], 1);
      EXPECT_EQ(side.k[0], 2);
      EXPECT_GT(distance(free, side.x.get(0)), 1e-3);
      EXPECT_LT(defect(side.x.get(0)), 1e-5);
    }
  }
}

TEST_P(SmallStep, DoesNotDrift) {
  for (const auto& c : {Case{{16, 64}}, {{16, 16}}}) {
    SCOPED_TRACE(testing::PrintToString(c));
    Side side(c, card(), 0.3, 1, /*count=*/1);
    double worst = 0;
    for (int step = 0; step < 200; ++step) {
      side.draw_gradients(1);
      side.step();
      worst = std::max(worst, defect(side.x.get(0)));
    }
    std::printf("  %s: ‖x xᵀ − I‖ ≤ %.1e over 200 steps\n", testing::PrintToString(c).c_str(), worst);
    EXPECT_LT(worst, 1e-5);
  }
}

TEST_P(SmallStep, FollowsMomentaOfAllSizes) {
  for (const double length : {1e-12, 1e-4, 1e6, 1e12}) {
    for (const auto& c : {Case{{16, 64}}, {{32, 32}}}) {
      SCOPED_TRACE(testing::PrintToString(c) + " " + std::to_string(length));
      Side side(c, card(), 0.1 / length);
      side.draw_gradients(length);
      const auto miss = side.compare();
      EXPECT_LT(miss.x, 3e-3);
      EXPECT_LT(miss.m, 2e-3);
      EXPECT_LT(miss.defect, 1e-5);
    }
  }
}

TEST(SmallForms, FitTheirCards) {
  EXPECT_EQ(find_form({64, 64}, kAmpere)->square, true);
  EXPECT_EQ(find_form({64, 64}, kAmpere)->threads, 128);
  EXPECT_NE(find_form({128, 128}, kAmpere), nullptr);
  EXPECT_EQ(find_form({127, 128}, kAmpere), nullptr);  // 128 KB of shared memory
  EXPECT_NE(find_form({127, 128}, kHopper), nullptr);
  EXPECT_NE(find_form({64, 256}, kAmpere), nullptr);
  EXPECT_EQ(find_form({64, 257}, kHopper), nullptr);
  EXPECT_EQ(find_form({129, 129}, kHopper), nullptr);
  EXPECT_NE(find_form({64, 64}, kTuring), nullptr);
  EXPECT_EQ(find_form({128, 128}, kTuring), nullptr);
  EXPECT_EQ(find_form({16, 64}, SmallCard{70, 96 << 10}), nullptr);
  // The smallest that fits: a matrix that is not square never takes a square's kernel.
  EXPECT_EQ(find_form({1, 5}, kAmpere)->n, 64);
  EXPECT_FALSE(find_form({31, 32}, kAmpere)->square);
}

/// Many weights are found in a table in memory, and each thread block its own matrix.
TEST(SmallLists, FindEveryStack) {
  constexpr int kStacks = 7;
  const Case c{{16, 16}};
  std::vector<std::unique_ptr<Side>> sides;
  std::vector<SmallStack> table;
  int first = 0;
  for (unsigned i = 0; i < kStacks; ++i) {
    sides.push_back(std::make_unique<Side>(c, kTuring, 0.1, i + 1));
    sides.back()->draw_gradients(1);
    table.push_back(sides.back()->stack());
    table.back().first = first;
    table.back().count = i % 2 == 0 ? 2 : 1;
    first += table.back().count;
  }
  const SmallForm& form = *find_form(c.shape, kTuring);
  const SmallList list{kStacks, first, table.data(), {}};
  std::vector<Dense> before;
  for (auto& side : sides) before.push_back(side->x.get(1));
  cuda_on_cpu::run(dim3(static_cast<unsigned>(first)), form.threads,
                   [&] { form.kernel(list, sides[0]->recipe); });
  for (unsigned i = 0; i < kStacks; ++i) {
    EXPECT_EQ(distance(sides[i]->x.get(1), before[i]) > 1e-3, i % 2 == 0) << i;
    Side alone(c, kTuring, 0.1, i + 1);
    alone.draw_gradients(1);
    alone.step();
    EXPECT_EQ(distance(sides[i]->x.get(0), alone.x.get(0)), 0) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SmallStep,
                         ::testing::Values(Kind{"halves", kAmpere}, Kind{"floats", kTuring}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace small_step_kernels_test
