#include <torch/cuda.h>

#include "tests/support.h"

// The operators on a CUDA device against the same steps on the CPU, where every correction's choice differs:
// the device makes them all.

namespace device_test {

using at::Tensor;

struct Case {
  std::vector<int64_t> shape;
  at::ScalarType type;
  stiefel::CayleyOptions options;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto type : {at::kDouble, at::kComplexDouble, at::kFloat, at::kComplexFloat}) {
    for (const auto& shape : {std::vector<int64_t>{3, 8, 20}, {20, 8}, {2, 12, 12}, {1, 9}, {64, 576}}) {
      stiefel::CayleyOptions plain;
      auto exact = plain;
      exact.exact = true;
      auto literal = plain;
      literal.polish = false;
      auto spectral = plain;
      spectral.norm = stiefel::Norm::kSpectral;
      for (const auto& options : {plain, exact, literal, spectral}) all.push_back({shape, type, options});
    }
  }
  return all;
}

class Device : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(Device, StepsEqualTheCpus) {
  for (const auto& c : cases()) {
    auto start = torch::empty(c.shape, c.type);
    stiefel::init::haar_(start, true);
    struct Side {
      Tensor x, m, v, k, skipped, rate;
    };
    std::vector<Side> sides;
    std::vector<int64_t> stack(c.shape.begin(), c.shape.end() - 2);
    for (const auto& device : {torch::Device(torch::kCPU), torch::Device(torch::kCUDA)}) {
      const auto scalar = at::TensorOptions(at::kDouble).device(device);
      sides.push_back({start.to(device, c.type, false, true), torch::zeros_like(start).to(device),
                       torch::zeros(stack, scalar), torch::zeros(stack, scalar),
                       torch::zeros({}, scalar.dtype(at::kLong)), torch::full({}, 0.1, scalar)});
    }
    for (int step = 0; step < 5; ++step) {
      auto g = torch::randn(c.shape, c.type) * 0.1;
      if (step == 2) g.view({-1})[0] = NAN;
      for (auto& s : sides) {
        stiefel::cayley_adam_({s.x}, {s.m}, {s.v}, {s.k}, {g.to(s.x.device())}, s.skipped, s.rate, 0.9, 0.99,
                              c.options, /*batched=*/true);
        stiefel::cayley_sgd_({s.x}, {s.m}, {g.to(s.x.device())}, s.skipped, s.rate, 0.9, c.options,
                             /*batched=*/true);
      }
    }
    const bool is_double = c10::toRealValueType(c.type) == at::kDouble;
    EXPECT_LT(support::distance(sides[1].x.cpu(), sides[0].x), is_double ? 1e-12 : 2e-5) << c.shape << c.type;
    EXPECT_EQ(sides[0].skipped.item<int64_t>(), 2);
    EXPECT_EQ(sides[1].skipped.item<int64_t>(), 2);
    if (c.options.polish) {
      EXPECT_LT(support::defect(sides[1].x, true), is_double ? 1e-13 : 1e-5) << c.shape << c.type;
    }
  }
}

TEST_F(Device, OptimizersRunThere) {
  std::vector<Tensor> weights;
  for (int i = 0; i < 3; ++i)
    weights.push_back(support::point({16, 3, 3, 8}, at::kFloat).detach().to(torch::kCUDA).requires_grad_());
  weights.push_back(weights[0].detach().to(at::kBFloat16).requires_grad_());
  stiefel::CayleySGD optimizer(weights, stiefel::CayleySGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 200; ++step) {
    support::randomize_gradients(weights);
    optimizer.step();
  }
  for (int i = 0; i < 3; ++i) EXPECT_LT(support::defect(weights[i]), 5e-6 * 4);
  support::load(optimizer, support::save(optimizer));
  optimizer.step();
}

}  // namespace device_test
