#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <type_traits>
#include <vector>

#include "models/cuda/normalized_relu_kernels.h"

// The kernels of the normalised ReLU, their own code run on the CPU thread by thread, against the formula in
// double. normalized_relu_test has them on a GPU, within LibTorch.

namespace relu_kernels_test {

using namespace stiefel::models::cuda::relu;

float value(float x) { return x; }
float value(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
T as(double x) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(x);
  } else {
    return __float2bfloat16_rn(static_cast<float>(x));
  }
}
template <class T>
double rounded(double x) {
  return value(as<T>(x));
}

enum class Form { kPlain, kSummed, kSummedAlone, kPooled };

/// `kSummed`: the sum has another use, whose gradient comes back with the ReLU's; `kSummedAlone`: it has
/// none.
struct Case {
  int images, height, width, channels;
  Form form = Form::kPlain;

  int rows() const { return images * height * width; }
  bool pooled() const { return form == Form::kPooled; }
  bool summed() const { return form == Form::kSummed || form == Form::kSummedAlone; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const char* forms[] = {"plain", "summed", "summed, alone", "pooled"};
  return out << c.images << "×" << c.height << "×" << c.width << "×" << c.channels << ", "
             << forms[static_cast<int>(c.form)];
}

constexpr double kMomentum = 0.1, kEpsilon = 1e-5;

/// All that goes into the kernels, and what they make of it.
template <class T>
struct Pass {
  explicit Pass(const Case& c_) : c(c_), count(static_cast<size_t>(c.rows()) * c.channels) {
    std::mt19937 generator(static_cast<unsigned>(c.rows() + c.channels));
    std::normal_distribution<double> normal;
    const auto draw = [&](size_t n, double mean) {
      std::vector<T> drawn(n);
      for (auto& one : drawn) one = as<T>(normal(generator) + mean);
      return drawn;
    };
    x = draw(count, 0.5);
    addend = draw(count, -0.2);
    gradient = draw(c.pooled() ? count / 4 : count, 0.1);
    sum_gradient = draw(count, 0);
    for (int i = 0; i < c.channels; ++i) {
      weight.push_back(static_cast<float>(1 + 0.3 * normal(generator)));
      bias.push_back(static_cast<float>(0.3 * normal(generator)));
    }
  }

  void run() {
    const ReluShape shape{c.rows(), c.channels, c.width, c.pooled(), std::is_same_v<T, __nv_bfloat16>};
    const auto channels = static_cast<size_t>(c.channels);
    std::vector<float> partial(partial_floats(shape)), coefficients(2 * channels);
    statistics.assign(3 * channels, 0);
    running_mean.assign(channels, 0);
    running_variance.assign(channels, 1);
    weight_gradient.assign(channels, 0);
    bias_gradient.assign(channels, 0);
    sum.assign(count, {});
    out.assign(gradient.size(), {});
    x_gradient.assign(count, {});
    normalized_relu_forward(
        shape,
        {x.data(), c.summed() ? addend.data() : nullptr, c.summed() ? sum.data() : nullptr, weight.data(),
         bias.data(), static_cast<float>(kMomentum), static_cast<float>(kEpsilon), running_mean.data(),
         running_variance.data(), &batches, statistics.data(), out.data(), partial.data(), counters.data()},
        nullptr);
    normalized_relu_backward(
        shape,
        {c.summed() ? sum.data() : x.data(), bias.data(), statistics.data(), gradient.data(),
         c.form == Form::kSummed ? sum_gradient.data() : nullptr, x_gradient.data(), weight_gradient.data(),
         bias_gradient.data(), coefficients.data(), partial.data(), counters.data()},
        nullptr);
  }

  Case c;
  size_t count;
  std::vector<T> x, addend, gradient, sum_gradient, sum, out, x_gradient;
  std::vector<float> weight, bias, statistics, running_mean, running_variance, weight_gradient, bias_gradient;
  std::vector<unsigned> counters = std::vector<unsigned>(kCounters, 0);
  int64_t batches = 0;
};

/// ‖found − wanted‖ / ‖wanted‖.
class Distance {
 public:
  void add(double found, double wanted) {
    off_ += (found - wanted) * (found - wanted);
    all_ += wanted * wanted;
  }
  double relative() const { return std::sqrt(off_ / (all_ + 1e-30)); }

 private:
  double off_ = 0, all_ = 0;
};

/// The rows of a 2×2 square.
std::array<int, 4> square(const Case& c, int pooled) {
  const int line = pooled / (c.width / 2), at = pooled % (c.width / 2);
  const int corner = 2 * line * c.width + 2 * at;
  return {corner, corner + 1, corner + c.width, corner + c.width + 1};
}

template <class T>
void expect_the_formula(const Pass<T>& pass, double tolerance) {
  const auto& c = pass.c;
  const int rows = c.rows();
  Distance sum, out, x, weight, bias, mean_off, variance_off;
  for (int channel = 0; channel < c.channels; ++channel) {
    const auto at = [&](int row) { return static_cast<size_t>(row) * c.channels + channel; };
    std::vector<double> xs(rows), y(rows), g(rows, 0.0);
    double mean = 0, variance = 0;
    for (int row = 0; row < rows; ++row) {
      xs[row] = value(pass.x[at(row)]);
      if (c.summed()) {
        xs[row] = rounded<T>(xs[row] + value(pass.addend[at(row)]));
        sum.add(value(pass.sum[at(row)]), xs[row]);
      }
      mean += xs[row] / rows;
    }
    for (const double one : xs) variance += (one - mean) * (one - mean) / rows;
    const double inverse = 1 / std::sqrt(variance + kEpsilon);
    mean_off.add(pass.running_mean[channel], kMomentum * mean);
    variance_off.add(pass.running_variance[channel],
                     1 - kMomentum + kMomentum * variance * rows / (rows - 1));
    for (int row = 0; row < rows; ++row) {
      y[row] =
          rounded<T>(std::max(0.0, (xs[row] - mean) * inverse * pass.weight[channel] + pass.bias[channel]));
    }
    for (int i = 0; i < (c.pooled() ? rows / 4 : rows); ++i) {
      int row = i;
      if (c.pooled()) {
        row = square(c, i)[0];
        for (const int other : square(c, i)) row = y[other] > y[row] ? other : row;
      }
      out.add(value(pass.out[at(i)]), y[row]);
      g[row] = y[row] > 0 ? value(pass.gradient[at(i)]) : 0;
    }
    double sum_g = 0, sum_gx = 0;
    for (int row = 0; row < rows; ++row) {
      sum_g += g[row];
      sum_gx += g[row] * (xs[row] - mean) * inverse;
    }
    weight.add(pass.weight_gradient[channel], sum_gx);
    bias.add(pass.bias_gradient[channel], sum_g);
    for (int row = 0; row < rows; ++row) {
      const double other = c.form == Form::kSummed ? value(pass.sum_gradient[at(row)]) : 0.0;
      x.add(value(pass.x_gradient[at(row)]),
            pass.weight[channel] * inverse *
                    (g[row] - sum_g / rows - (xs[row] - mean) * inverse * sum_gx / rows) +
                other);
    }
  }
  EXPECT_LT(sum.relative(), 1e-7);
  EXPECT_LT(mean_off.relative(), 1e-5);
  EXPECT_LT(variance_off.relative(), 1e-5);
  EXPECT_LT(out.relative(), tolerance);
  EXPECT_LT(x.relative(), tolerance);
  EXPECT_LT(weight.relative(), 1e-4);
  EXPECT_LT(bias.relative(), 1e-4);
  EXPECT_EQ(pass.batches, 1);
  EXPECT_EQ(pass.counters, std::vector<unsigned>(kCounters, 0));
}

class ReluKernels : public ::testing::TestWithParam<Form> {
 protected:
  void TearDown() override { cuda_on_cpu::processors = 13; }

  /// One block and many to a tile, one round of rows to a thread and many, threads left over, several tiles.
  static std::vector<Case> cases() {
    const auto form = GetParam();
    return {{2, 2, 2, 8, form},    {7, 6, 6, 24, form},    {9, 4, 4, 136, form}, {128, 2, 2, 64, form},
            {32, 8, 8, 320, form}, {33, 16, 16, 32, form}, {5, 32, 30, 40, form}};
  }
};

TEST_P(ReluKernels, AreTheFormula) {
  for (const int processors : {13, 2}) {
    cuda_on_cpu::processors = processors;
    for (const auto& c : cases()) {
      SCOPED_TRACE(::testing::Message() << c << ", " << processors << " processors");
      Pass<float> in_float(c);
      in_float.run();
      expect_the_formula(in_float, 1e-3);  // a ReLU next to zero may fall on either side
      Pass<__nv_bfloat16> in_bfloat16(c);
      in_bfloat16.run();
      expect_the_formula(in_bfloat16, 4e-3);
    }
  }
}

TEST_P(ReluKernels, KeepANaN) {
  Pass<float> pass({4, 4, 4, 16, GetParam()});
  pass.x[5 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
  pass.run();
  for (size_t i = 0; i < pass.out.size(); ++i) EXPECT_EQ(std::isnan(pass.out[i]), i % 16 == 3) << i;
}

INSTANTIATE_TEST_SUITE_P(Forms, ReluKernels,
                         ::testing::Values(Form::kPlain, Form::kSummed, Form::kSummedAlone, Form::kPooled));

TEST(ReluKernelsFit, MultiplesOfEightChannels) {
  for (const int channels : {8, 16, 24, 160, 640, 2048})
    EXPECT_TRUE(normalized_relu_fits(channels)) << channels;
  for (const int channels : {0, 3, 12, 8 * 257}) EXPECT_FALSE(normalized_relu_fits(channels)) << channels;
}

}  // namespace relu_kernels_test
