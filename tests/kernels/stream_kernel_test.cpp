#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "models/cuda/recurrence_paths.h"
#include "models/cuda/stream_plan.h"

// The stream kernel of the recurrence, its own code run on the CPU thread by thread, against the recurrence
// in double and against finite differences. gpu_test has it on a GPU, within LibTorch.

namespace stream_kernel_test {

using namespace stiefel::models::cuda;

using Complex = std::complex<double>;

struct Case {
  int n, batch, steps;
  bool complex = true;
  bool tanh = false;
  bool one_input = true;
  bool all_states = false;
  bool aligned = true;  // K at a multiple of 16 bytes

  int parts() const { return complex ? 2 : 1; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << (c.complex ? "complex" : "real") << (c.tanh ? " tanh" : "") << ", n " << c.n << ", batch "
             << c.batch << ", " << c.steps << " steps" << (c.one_input ? ", one input" : "")
             << (c.all_states ? ", all states" : "") << (c.aligned ? "" : ", K not aligned");
}

/// Floats between others that must stay as they are; not 16-byte aligned unless `aligned`.
class Guarded {
 public:
  Guarded(size_t count, bool aligned) : all_(count + 2 * kGuard + 8, kOutside), count_(count) {
    const auto address = reinterpret_cast<uintptr_t>(all_.data() + kGuard);
    first_ = kGuard + (16 - address % 16) % 16 / 4 + (aligned ? 0 : 2);
    std::fill_n(data(), count, std::numeric_limits<float>::quiet_NaN());
  }
  float* data() { return all_.data() + first_; }
  const float* data() const { return all_.data() + first_; }
  size_t size() const { return count_; }
  bool has_the_bits_of(const Guarded& other) const {
    return count_ == other.count_ && std::memcmp(data(), other.data(), count_ * sizeof(float)) == 0;
  }
  bool whole() const {
    return std::count(all_.begin(), all_.end(), kOutside) == static_cast<int64_t>(all_.size() - count_);
  }

 private:
  static constexpr size_t kGuard = 32;
  static constexpr float kOutside = 7.25e20f;
  std::vector<float> all_;
  size_t count_, first_;
};

using Numbers = std::vector<Complex>;

/// The weights and inputs; `vx` is V x_t of all steps.
struct Layer {
  Numbers k, v, h0, vx;
  std::vector<double> b, x;
};

float rounded(double x) { return static_cast<float>(x); }

/// All that goes into the kernels, of numbers that float holds.
Layer draw(const Case& c) {
  std::mt19937 generator(static_cast<unsigned>(c.n * 31 + c.batch));
  std::normal_distribution<double> normal;
  const auto number = [&](double size) {
    const double real = rounded(size * normal(generator));
    return Complex(real, c.complex ? rounded(size * normal(generator)) : 0.0);
  };
  const auto numbers = [&](size_t count, double size) {
    Numbers all(count);
    for (auto& one : all) one = number(size);
    return all;
  };
  const auto n = static_cast<size_t>(c.n), rows = static_cast<size_t>(c.steps) * c.batch;
  Layer layer;
  layer.k = numbers(n * n, 1 / std::sqrt(c.parts() * static_cast<double>(c.n)));
  layer.v = numbers(n, 0.7);
  layer.h0 = numbers(n, 0.7);
  // Some units are off. A real unit with a large positive bias is steep at zero: it would magnify rounding.
  for (size_t j = 0; j < n; ++j) layer.b.push_back(rounded(0.1 * normal(generator) - 0.2));
  for (size_t i = 0; i < rows; ++i) layer.x.push_back(rounded(normal(generator)));
  if (!c.one_input) layer.vx = numbers(rows * n, 0.7);
  return layer;
}

/// h = f(z, b) and δ = f'(z, b) g of one unit, and ∂b, by the formulas.
struct UnitInDouble {
  Complex z;
  double b;
  bool tanh;

  double r() const { return std::sqrt(std::norm(z) + 1e-5); }
  Complex h() const { return tanh ? std::tanh(z.real() + b) : z * std::max(0.0, r() + b) / r(); }
  Complex delta(Complex g) const {
    if (tanh) return g.real() * (1 - std::norm(h()));
    if (r() + b <= 0) return 0;
    return g * (r() + b) / r() - z * (std::real(std::conj(z) * g) * b / (r() * r() * r()));
  }
  double db(Complex g) const {
    if (tanh) return delta(g).real();
    return r() + b > 0 ? std::real(std::conj(z) * g) / r() : 0;
  }
};

struct Forward {
  Numbers z, h;  // of all steps
};

Forward forward_in_double(const Case& c, const Layer& layer) {
  const auto n = static_cast<size_t>(c.n), batch = static_cast<size_t>(c.batch);
  Forward result;
  result.z.resize(n * batch * c.steps);
  result.h.resize(result.z.size());
  for (size_t i = 0; i < batch * c.steps; ++i) {
    const Complex* before = i < batch ? layer.h0.data() : &result.h[(i - batch) * n];
    for (size_t j = 0; j < n; ++j) {
      Complex z = c.one_input ? layer.v[j] * layer.x[i] : layer.vx[i * n + j];
      for (size_t l = 0; l < n; ++l) z += layer.k[j * n + l] * before[l];
      result.z[i * n + j] = z;
      result.h[i * n + j] = UnitInDouble{z, layer.b[j], c.tanh}.h();
    }
  }
  return result;
}

struct Backward {
  Numbers delta, before, h0_rows, v_rows;
  std::vector<double> b_rows;
};

/// `gradient` as the kernels take it.
Backward backward_in_double(const Case& c, const Layer& layer, const Forward& f, const Numbers& gradient) {
  const auto n = static_cast<size_t>(c.n), batch = static_cast<size_t>(c.batch), rows = batch * n;
  Backward result;
  result.delta.resize(f.z.size());
  result.before.resize(f.z.size());
  result.v_rows.resize(rows);
  result.b_rows.resize(rows);
  Numbers g(rows);
  for (size_t t = c.steps; t-- > 0;) {
    const bool given = c.all_states || t + 1 == static_cast<size_t>(c.steps);
    for (size_t i = 0; i < rows; ++i) {
      const size_t at = t * rows + i;
      if (given) g[i] += gradient[c.all_states ? at : i];
      const UnitInDouble unit{f.z[at], layer.b[i % n], c.tanh};
      result.delta[at] = unit.delta(g[i]);
      result.before[at] = t == 0 ? layer.h0[i % n] : f.h[at - rows];
      result.b_rows[i] += unit.db(g[i]);
      if (c.one_input) result.v_rows[i] += result.delta[at] * layer.x[t * batch + i / n];
    }
    for (size_t row = 0; row < batch; ++row) {
      const Complex* delta = &result.delta[t * rows + row * n];
      Complex* to = &g[row * n];
      std::fill_n(to, n, Complex());
      for (size_t j = 0; j < n; ++j)
        for (size_t l = 0; l < n; ++l) to[l] += std::conj(layer.k[j * n + l]) * delta[j];
    }
  }
  result.h0_rows = g;
  return result;
}

/// The arrays on the "device" and the kernels' passes over them.
struct Device {
  Device(const Case& c_, const Layer& layer, const Numbers& gradient_)
      : c(c_),
        rows(static_cast<size_t>(c.batch) * c.n),
        k(filled(layer.k, c.aligned)),
        v(filled(layer.v)),
        h0(filled(layer.h0)),
        gradient(filled(gradient_)),
        b(layer.b.size(), true),
        x(layer.x.size(), true),
        z(floats(rows * c.steps), true),
        states(gradient.size(), true),
        delta(z.size(), true),
        before(z.size(), true),
        b_rows(rows, true),
        h0_rows(floats(rows), true),
        v_rows(floats(rows), true) {
    std::transform(layer.b.begin(), layer.b.end(), b.data(), rounded);
    std::transform(layer.x.begin(), layer.x.end(), x.data(), rounded);
    put(layer.vx, z);
  }

  size_t floats(size_t numbers) const { return numbers * c.parts(); }
  void put(const Numbers& from, Guarded& to) const {
    for (size_t i = 0; i < from.size(); ++i) {
      to.data()[floats(i)] = rounded(from[i].real());
      if (c.complex) to.data()[floats(i) + 1] = rounded(from[i].imag());
    }
  }
  Guarded filled(const Numbers& from, bool aligned = true) const {
    Guarded to(floats(from.size()), aligned);
    put(from, to);
    return to;
  }

  void run() {
    poison();
    const RecurrenceShape shape{c.steps, c.batch, c.n, c.complex, c.tanh};
    ASSERT_EQ(stream::forward(shape,
                              {k.data(), b.data(), h0.data(), c.one_input ? v.data() : nullptr,
                               c.one_input ? x.data() : nullptr, z.data(), states.data(), c.all_states},
                              nullptr),
              cudaSuccess);
    poison();
    ASSERT_EQ(stream::backward(shape,
                               {k.data(), b.data(), h0.data(), c.one_input ? x.data() : nullptr, z.data(),
                                gradient.data(), delta.data(), before.data(), b_rows.data(), h0_rows.data(),
                                c.one_input ? v_rows.data() : nullptr, c.all_states},
                               nullptr),
              cudaSuccess);
    for (const auto* one :
         {&k, &v, &h0, &gradient, &b, &x, &z, &states, &delta, &before, &b_rows, &h0_rows, &v_rows})
      EXPECT_TRUE(one->whole()) << "written outside of an array";
  }

  /// Shared memory holds anything at first.
  static void poison() {
    std::fill_n(cuda_on_cpu::dynamic_memory(), cuda_on_cpu::kDynamicBytes / sizeof(float),
                std::numeric_limits<float>::quiet_NaN());
  }

  Complex number(const Guarded& from, size_t i) const {
    return {from.data()[floats(i)], c.complex ? from.data()[floats(i) + 1] : 0.0};
  }

  Case c;
  size_t rows;
  Guarded k, v, h0, gradient, b, x, z, states, delta, before, b_rows, h0_rows, v_rows;
};

Numbers draw_gradient(const Case& c) {
  std::mt19937 generator(5);
  std::normal_distribution<double> normal;
  Numbers gradient(static_cast<size_t>(c.batch) * c.n * (c.all_states ? c.steps : 1));
  for (auto& one : gradient) one = {rounded(normal(generator)), c.complex ? rounded(normal(generator)) : 0.0};
  return gradient;
}

/// ‖found − wanted‖ / ‖wanted‖ over the rows of n numbers, the worst of them; a NaN fails.
void expect_near(const Device& device, const Guarded& found, const Complex* wanted, const char* name) {
  const auto n = static_cast<size_t>(device.c.n);
  double worst = 0;
  for (size_t row = 0; row < found.size() / device.floats(n); ++row) {
    double off = 0, all = 0;
    for (size_t i = row * n; i < (row + 1) * n; ++i) {
      off += std::norm(device.number(found, i) - wanted[i]);
      all += std::norm(wanted[i]);
    }
    const double relative = std::sqrt(off / (all + 1e-30));
    worst = relative <= worst ? worst : relative;
  }
  EXPECT_LE(worst, 1e-5) << name;
}

void expect_the_recurrence(const Case& c) {
  SCOPED_TRACE(::testing::PrintToString(c));
  const auto layer = draw(c);
  const auto gradient = draw_gradient(c);
  Device device(c, layer, gradient);
  device.run();
  const auto f = forward_in_double(c, layer);
  expect_near(device, device.z, f.z.data(), "z");
  expect_near(device, device.states, f.h.data() + (c.all_states ? 0 : f.h.size() - device.rows), "states");
  const auto back = backward_in_double(c, layer, f, gradient);
  expect_near(device, device.delta, back.delta.data(), "delta");
  expect_near(device, device.before, back.before.data(), "before");
  expect_near(device, device.h0_rows, back.h0_rows.data(), "h0_rows");
  if (c.one_input) expect_near(device, device.v_rows, back.v_rows.data(), "v_rows");
  for (size_t i = 0; i < device.rows; ++i)
    EXPECT_NEAR(device.b_rows.data()[i], back.b_rows[i], 1e-5 * std::sqrt(c.n)) << "b_rows " << i;
}

class StreamKernel : public ::testing::Test {
 protected:
  void SetUp() override { set_card(82); }
  void TearDown() override {
    set_card(13);
    cuda_on_cpu::last_thread_first = false;
  }

  static void set_card(int processors, int kilobytes = 99) {
    cuda_on_cpu::processors = processors;
    cuda_on_cpu::shared_bytes = kilobytes << 10;
  }
  static int rows(stream::Direction direction, const Case& c) {
    return stream::rows_for(direction, c.n, c.parts(), c.batch,
                            {cuda_on_cpu::processors, 128, cuda_on_cpu::shared_bytes});
  }
};

/// Every kernel: two to eight rows per block, wide and narrow loads, and blocks that are not full.
TEST_F(StreamKernel, IsTheRecurrence) {
  std::set<int> forward, backward;
  for (const auto& [processors, batch, n] : {std::tuple{82, 3, 129},
                                             {1, 3, 129},
                                             {1, 5, 129},
                                             {1, 7, 129},
                                             {82, 3, 160},
                                             {1, 3, 160},
                                             {1, 5, 160},
                                             {1, 7, 160},
                                             {82, 1, 64},
                                             {1, 5, 257}}) {
    set_card(processors);
    for (const auto& c :
         {Case{n, batch, 3}, Case{n, batch, 3, true, false, false, true}, Case{n, batch, 3, false},
          Case{n, batch, 3, false, false, false, true}, Case{n, batch, 3, false, true, true, true}}) {
      forward.insert(rows(stream::Direction::kForward, c));
      backward.insert(rows(stream::Direction::kBackward, c));
      expect_the_recurrence(c);
    }
  }
  EXPECT_EQ(forward, (std::set<int>{2, 4, 6, 8}));
  EXPECT_EQ(backward, (std::set<int>{2, 4, 6, 8}));
}

TEST_F(StreamKernel, TakesLargeMatrices) {
  for (const auto& c : {Case{512, 3, 2}, Case{512, 5, 2, false, false, false, true}, Case{577, 1, 2},
                        Case{1024, 2, 1}, Case{1024, 2, 1, false, true}, Case{1023, 1, 1, false}})
    expect_the_recurrence(c);
  set_card(1);
  expect_the_recurrence({512, 7, 1});
  set_card(1, 64);  // Turing
  expect_the_recurrence({1024, 3, 1});
}

TEST_F(StreamKernel, TakesAMatrixThatIsNotAligned) {
  expect_the_recurrence({160, 3, 3, true, false, true, false, false});
  expect_the_recurrence({160, 5, 3, false, false, false, true, false});
}

TEST_F(StreamKernel, TakesManySteps) { expect_the_recurrence({72, 1, 100, false, true, true, true}); }

/// The derivative of L = Re Σ ḡh along a direction of all weights, from the kernels' arrays as the glue adds
/// them up, against a difference quotient in double.
TEST_F(StreamKernel, GradientsAreDifferenceQuotients) {
  for (const auto& c : {Case{129, 3, 4}, Case{132, 2, 5, true, false, true, true},
                        Case{129, 2, 4, false, true}, Case{140, 3, 3, false, false, true, true}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto layer = draw(c);
    const auto gradient = draw_gradient(c);
    Device device(c, layer, gradient);
    device.run();
    Case other = c;
    other.batch += 1000;  // other numbers
    other.steps = 1;
    const auto direction = draw(other);
    const auto n = static_cast<size_t>(c.n);
    double found = 0;
    const auto along = [&](Complex d, Complex g) { found += std::real(std::conj(d) * g); };
    for (size_t row = 0; row < static_cast<size_t>(c.batch * c.steps); ++row) {
      for (size_t j = 0; j < n; ++j) {
        Complex k_before = 0;  // (D h)_j, so that Re Σ D̄ δh̄ᵀ is Re Σ conj(D h) δ
        for (size_t l = 0; l < n; ++l)
          k_before += direction.k[j * n + l] * device.number(device.before, row * n + l);
        along(k_before, device.number(device.delta, row * n + j));
      }
    }
    for (size_t i = 0; i < device.rows; ++i) {
      along(direction.v[i % n], device.number(device.v_rows, i));
      along(direction.h0[i % n], device.number(device.h0_rows, i));
      found += direction.b[i % n] * device.b_rows.data()[i];
    }
    const auto loss = [&](double step) {
      auto moved = layer;
      const auto move = [&](auto& to, const auto& by) {
        for (size_t i = 0; i < to.size(); ++i) to[i] += step * by[i];
      };
      move(moved.k, direction.k);
      move(moved.v, direction.v);
      move(moved.h0, direction.h0);
      move(moved.b, direction.b);
      const auto f = forward_in_double(c, moved);
      const size_t first = f.h.size() - gradient.size();
      double sum = 0;
      for (size_t i = 0; i < gradient.size(); ++i) sum += std::real(std::conj(gradient[i]) * f.h[first + i]);
      return sum;
    };
    const double step = 1e-6, wanted = (loss(step) - loss(-step)) / (2 * step);
    EXPECT_NEAR(found / wanted, 1, 1e-4);
  }
}

TEST_F(StreamKernel, DependsOnNoOrderOfThreads) {
  for (const auto& c : {Case{129, 3, 3}, Case{160, 3, 3, true, false, false, true}, Case{260, 2, 3, false}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto layer = draw(c);
    const auto gradient = draw_gradient(c);
    Device one(c, layer, gradient), two(c, layer, gradient);
    one.run();
    cuda_on_cpu::last_thread_first = true;
    two.run();
    cuda_on_cpu::last_thread_first = false;
    for (const auto array : {&Device::z, &Device::states, &Device::delta, &Device::before, &Device::b_rows,
                             &Device::h0_rows, &Device::v_rows})
      EXPECT_TRUE((one.*array).has_the_bits_of(two.*array));
  }
}

/// The first rows of a batch do not depend on how many there are, nor on how many a block takes.
TEST_F(StreamKernel, GivesARowTheSameBitsInAnyBlock) {
  for (const bool complex : {true, false}) {
    const Case seven{132, 7, 1, complex}, two{132, 2, 1, complex};  // of one step the first rows come first
    auto layer = draw(seven);
    auto gradient = draw_gradient(seven);
    Device all(seven, layer, gradient);
    set_card(1);
    ASSERT_EQ(rows(stream::Direction::kBackward, seven), 8);
    all.run();
    layer.x.resize(2);
    gradient.resize(2 * 132);
    Device first(two, layer, gradient);
    set_card(82);
    ASSERT_EQ(rows(stream::Direction::kBackward, two), 2);
    first.run();
    for (const auto array :
         {&Device::z, &Device::states, &Device::delta, &Device::b_rows, &Device::h0_rows, &Device::v_rows}) {
      EXPECT_EQ(
          std::memcmp((all.*array).data(), (first.*array).data(), (first.*array).size() * sizeof(float)), 0);
    }
  }
}

TEST_F(StreamKernel, KeepsABadRowToItself) {
  const Case c{129, 6, 3};
  auto layer = draw(c);
  const auto gradient = draw_gradient(c);
  Device sound(c, layer, gradient);
  sound.run();
  layer.x[1 * 6 + 4] = std::numeric_limits<double>::quiet_NaN();
  Device bad(c, layer, gradient);
  bad.run();
  const size_t row = sound.floats(129);
  for (size_t i = 0; i < sound.states.size(); ++i) {
    if (i / row == 4) {
      EXPECT_TRUE(std::isnan(bad.states.data()[i]));
      EXPECT_TRUE(std::isnan(bad.h0_rows.data()[i]));
    } else {
      EXPECT_EQ(bad.states.data()[i], sound.states.data()[i]);
      EXPECT_EQ(bad.h0_rows.data()[i], sound.h0_rows.data()[i]);
    }
  }
}

TEST_F(StreamKernel, FitsBetweenItsBounds) {
  for (const int n : {64, 129, 512, 1024}) {
    EXPECT_TRUE(stream::fits(n, true)) << n;
    EXPECT_TRUE(stream::fits(n, false)) << n;
  }
  for (const int n : {0, 1, 63, 1025}) EXPECT_FALSE(stream::fits(n, true)) << n;
  set_card(46, 47);
  EXPECT_FALSE(stream::fits(1024, true));
  EXPECT_TRUE(stream::fits(1024, false));
}

TEST(StreamPlan, SharesGiveEveryPieceToOneWarp) {
  for (const int width : {1, 2, 4}) {
    for (int n = stream::kLeastUnits; n <= stream::kMostUnits; ++n) {
      const stream::Shares shares(n, width);
      ASSERT_GE(shares.total, stream::kWarps) << n;
      ASSERT_EQ(shares.first(0), 0);
      ASSERT_EQ(shares.first(stream::kWarps), shares.total);
      std::set<int> slots;
      for (int warp = 0, strip = -1; warp < stream::kWarps; ++warp) {
        ASSERT_LT(shares.first(warp), shares.first(warp + 1)) << n;
        for (int piece = shares.first(warp); piece < shares.first(warp + 1); ++piece) {
          ASSERT_EQ(shares.warp_of(piece), warp) << n;
          const bool part_begins = piece == shares.first(warp) || piece / shares.pieces != strip;
          strip = piece / shares.pieces;
          ASSERT_EQ(slots.insert(warp + strip).second, part_begins) << n;
          ASSERT_LT(warp + strip, shares.slots()) << n;
        }
      }
    }
  }
}

TEST(StreamPlan, FitsTheSharedMemoryOfEveryCard) {
  for (const int parts : {1, 2}) {
    for (int n = stream::kLeastUnits; n <= stream::kMostUnits; ++n) {
      for (const int kilobytes : {64, 99}) {
        const stream::Card card{46, 64, kilobytes << 10};
        const int rows = stream::rows_for(stream::Direction::kBackward, n, parts, 128, card);
        ASSERT_GT(rows, 0) << n;
        for (const int width : {1, 4 / parts})
          ASSERT_LE(4 * stream::backward_floats(n, parts, rows, width), card.memory) << n;
        const int forward_rows = stream::rows_for(stream::Direction::kForward, n, parts, 128, card);
        ASSERT_GT(forward_rows, 0) << n;
        ASSERT_LE(4 * stream::forward_floats(n, parts, forward_rows), card.memory) << n;
      }
    }
  }
}

/// 512 complex units on cards of the sizes of an A100, an RTX 4090 and an RTX 3060.
TEST(StreamPlan, TakesMoreRowsWhereMultiprocessorsAreFewOrWide) {
  const auto rows = [](stream::Direction direction, int batch, int processors, int lanes) {
    return stream::rows_for(direction, 512, 2, batch, {processors, lanes, 99 << 10});
  };
  for (const auto direction : {stream::Direction::kForward, stream::Direction::kBackward}) {
    EXPECT_EQ(rows(direction, 128, 108, 64), 2);
    EXPECT_EQ(rows(direction, 128, 128, 128), 4);
    EXPECT_EQ(rows(direction, 1, 128, 128), 2);
  }
  EXPECT_EQ(rows(stream::Direction::kForward, 128, 28, 128), 8);
  EXPECT_EQ(rows(stream::Direction::kBackward, 128, 28, 128), 6) << "eight need too much memory";
}

}  // namespace stream_kernel_test
