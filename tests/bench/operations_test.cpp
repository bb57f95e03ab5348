#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <stiefel/stiefel.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "bench/contenders.h"
#include "bench/product_counter.h"

// What `stiefel bench step` prints of a method's operations is what its step asks LibTorch for.

namespace operations_test {

using namespace stiefel;

TEST(Counter, CountsProductsSolvesAndInverses) {
  const auto a = at::rand({2, 5, 7});
  const auto b = at::rand({2, 7, 3});
  const auto square = at::rand({1, 6, 6}) + 6 * at::eye(6);
  const auto count = [](const std::function<void()>& work) { return bench::count_operations(work).nominal; };
  EXPECT_DOUBLE_EQ(count([&] { at::bmm(a, b); }), 2 * 2 * 5 * 7 * 3);
  EXPECT_DOUBLE_EQ(count([&] { at::baddbmm(at::zeros({2, 5, 3}), a, b); }), 2 * 2 * 5 * 7 * 3);
  EXPECT_NEAR(count([&] { std::get<0>(at::linalg_inv_ex(square)); }), 2 * 6 * 6 * 6, 1e-9);
  EXPECT_NEAR(count([&] {
                at::linalg_solve(square, at::rand({1, 6, 4}));
              }),
              2.0 / 3 * 216 + 2 * 36 * 4, 1e-9);
  EXPECT_DOUBLE_EQ(count([&] { at::add(a, a); }), 0);
}

/// The value of a sum such as "⅔n³ + 6n²p + 4np²".
double value_of(std::string text, double p, double n) {
  const std::map<std::string, std::string> plain{
      {"⅔", "0.6666667"}, {"⅓", "0.3333333"}, {"²", "2"}, {"³", "3"}};
  for (const auto& [sign, letters] : plain) {
    for (size_t at = 0; (at = text.find(sign)) != std::string::npos;) text.replace(at, sign.size(), letters);
  }
  double sum = 0;
  for (size_t at = 0; at < text.size();) {
    size_t used = 0;
    double term = std::stod(text.substr(at), &used);
    for (at += used; at < text.size() && text[at] != ' '; ++at) {
      const double base = text[at] == 'n' ? n : p;
      const bool raised = at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0;
      term *= std::pow(base, raised ? text[at + 1] - '0' : 1);
      if (raised) ++at;
    }
    sum += term;
    at += 3;  // " + "
  }
  return sum;
}

TEST(Formula, IsReadAsItIsWritten) {
  EXPECT_NEAR(value_of("⅔n³ + 6n²p + 4np²", 2, 3), 18 + 108 + 48, 1e-5);
  EXPECT_DOUBLE_EQ(value_of("8np²", 2, 3), 96);
}

class Printed : public ::testing::TestWithParam<const char*> {};

TEST_P(Printed, OperationsAreThoseOfAStep) {
  const auto contender = bench::step_contenders({GetParam()}).at(0);
  const std::pair<int64_t, int64_t> shapes[] = {
      {24, 48}, {24, 240}, {520, 560}};  // in the last, Grams by panels
  for (const auto& [p, n] : shapes) {
    bench::Subject subject;
    subject.weights.layers.push_back({{p, n}});
    const auto run = contender.begin(subject, at::kCPU);
    // Rates are of bare steps; the dense form, which waits for α, has none.
    const auto step = [&](int64_t i) {
      if (contender.countable) {
        ASSERT_TRUE(run->bare_step(i));
      } else {
        run->step();
      }
    };
    for (int i = 0; i < 3; ++i) step(i);
    const double counted = bench::count_operations([&] { step(3); }).nominal;
    const double printed = value_of(contender.operations, p, n);
    EXPECT_NEAR(counted / printed, 1, 0.015)
        << p << "×" << n << ": " << contender.operations << " is " << printed << ", counted " << counted;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Printed,
                         ::testing::Values("cayley-sgd", "cayley-adam", "cayley-muon", "cayley-sgd-s5",
                                           "cayley-sgd-exact", "dense", "wen-yin", "wen-yin+m",
                                           "cayley-closed", "cayley-closed+m", "cayley-exact",
                                           "cayley-exact+m", "pogo", "pogo+m", "landing", "landing+m"));

TEST(Formula, OfTheStepWithoutCorrectionsIsTheLesserOfTwo) {
  const auto contender = bench::step_contenders({"cayley-sgd-no-polish"}).at(0);
  EXPECT_EQ(contender.operations, "min(8n²p + 4np², 14np² + 26p³)");
  for (const int64_t n : {32, 64, 80, 96, 320}) {
    const auto run = contender.begin(bench::shape_subject("32x" + std::to_string(n)), at::kCPU);
    const double counted = bench::count_operations([&] { run->bare_step(0); }).nominal;
    const double dense = value_of("8n²p + 4np²", 32, static_cast<double>(n));
    const double thin = value_of("14np² + 26p³", 32, static_cast<double>(n));
    EXPECT_DOUBLE_EQ(counted, std::min(dense, thin)) << n;
  }
}

/// The operations of one step of Cayley SGD on a weight that is off the manifold by a factor.
double operations_at(double factor) {
  const int64_t p = 160, n = 1440;
  auto weight = at::empty({p, n});
  init::haar_(weight).mul_(factor);
  CayleySGD optimizer({weight}, CayleySGDOptions(1e-3).orthonormalize_on_start(false));
  weight.mutable_grad() = at::randn({p, n}) / 100;
  return bench::count_operations([&] { optimizer.step(); }).nominal;
}

TEST(LargeMatrices, HaveTheirDriftMeasuredWhereALookFindsAny) {
  const double p = 160, n = 1440, product = 2 * p * p * n;
  const double look = 2 * 2 * 4 * p * n;
  EXPECT_NEAR(operations_at(1), 5 * product + look + 6 * p * p * p, 1e-3 * product);
  EXPECT_GE(operations_at(1.00001), 6 * product + look);
}

}  // namespace operations_test
