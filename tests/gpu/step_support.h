#pragma once

#include <torch/cuda.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support.h"

#if STIEFEL_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#endif

// What the tests of the mixed step on a GPU share.

namespace step_test {

using at::Tensor;
using stiefel::CayleyOptions;
using stiefel::Precision;

class CudaStep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(7);
    // What the allocator hands out next is full of NaN, so nothing may be read before it is written.
    for (int i = 0; i < 3; ++i)
      torch::full({64 << 20}, std::numeric_limits<float>::quiet_NaN(), torch::kCUDA);
  }
};

inline CayleyOptions mixed() {
  CayleyOptions options;
  options.precision = Precision::kMixed;
  return options;
}

/// Everything a step needs, on one device.
struct Side {
  std::vector<Tensor> x, m, v, k;
  Tensor skipped, rate;

  Side(const std::vector<Tensor>& points, const torch::Device& device, at::ScalarType type, double l) {
    const auto number = at::TensorOptions(at::kDouble).device(device);
    for (const auto& point : points) {
      x.push_back(point.to(device, type, false, true));
      m.push_back(torch::zeros_like(x.back()));
      const auto stack = point.sizes().slice(0, point.dim() - 2).vec();
      v.push_back(torch::zeros(stack, number));
      k.push_back(torch::zeros(stack, number));
    }
    skipped = torch::zeros({}, number.dtype(at::kLong));
    rate = torch::full({}, l, number);
  }

  void sgd(const std::vector<Tensor>& gradients, const CayleyOptions& options, double momentum = 0.9) {
    stiefel::cayley_sgd_(x, m, like_x(gradients), skipped, rate, momentum, options, /*batched=*/true);
  }
  void adam(const std::vector<Tensor>& gradients, const CayleyOptions& options) {
    stiefel::cayley_adam_(x, m, v, k, like_x(gradients), skipped, rate, 0.9, 0.99, options, /*batched=*/true);
  }
  void muon(const std::vector<Tensor>& gradients, const stiefel::MuonTerms& terms,
            const CayleyOptions& options) {
    stiefel::cayley_muon_(x, m, like_x(gradients), skipped, rate, terms, options, /*batched=*/true);
  }

 private:
  std::vector<Tensor> like_x(const std::vector<Tensor>& list) const {
    std::vector<Tensor> result;
    for (size_t i = 0; i < list.size(); ++i) result.push_back(list[i].to(x[i].device(), x[i].scalar_type()));
    return result;
  }
};

/// Points of many shapes: tiles that fit and tiles that do not, one row, squares, tall matrices and stacks.
inline std::vector<Tensor> points() {
  std::vector<Tensor> all;
  for (const auto& shape : {std::vector<int64_t>{16, 27},
                            {64, 27},
                            {3, 64, 576},
                            {160, 1440},
                            {160, 144},
                            {100, 100},
                            {1, 9},
                            {33, 65},
                            {130, 1000},
                            {7, 5},
                            {256, 2304},
                            {2, 70, 30}}) {
    auto point = torch::empty(shape, at::kFloat);
    stiefel::init::haar_(point, true);
    all.push_back(point);
  }
  return all;
}

inline std::vector<Tensor> gradients_like(const std::vector<Tensor>& all, double length) {
  std::vector<Tensor> result;
  for (const auto& t : all) {
    const auto g = torch::randn(t.sizes(), at::kDouble);
    result.push_back((g * (length / std::sqrt(static_cast<double>(t.size(-1) * t.size(-2))))).to(at::kFloat));
  }
  return result;
}

/// How far a step ended from where it should, relative to its length, beyond what float32 cannot tell apart.
inline double miss(const Tensor& x, const Tensor& from, const Tensor& reference) {
  const auto off = (x.cpu().to(at::kDouble) - reference).norm().item<double>();
  const auto floor = 2e-7 * from.norm().item<double>();
  return std::max(0.0, off - floor) / (reference - from.to(at::kDouble)).norm().item<double>();
}

#if STIEFEL_HAS_CUDA
/// Captures an optimizer's step on matrices of many shapes, and expects replays under a schedule to do what
/// another optimizer does eagerly, bit for bit.
template <class Optimizer, class Options>
void expect_graph_equals_eager(const Options& options, const std::vector<Tensor>& starts = points()) {
  std::vector<Tensor> captured, eager;
  for (const auto& start : starts) {
    if (start.dim() > 2) continue;
    captured.push_back(start.to(torch::kCUDA, at::kFloat, false, true).requires_grad_());
    eager.push_back(start.to(torch::kCUDA, at::kFloat, false, true).requires_grad_());
  }
  Optimizer graphed(captured, options), plain(eager, options);
  const auto set_gradients = [&] {
    for (size_t i = 0; i < captured.size(); ++i) {
      const auto g = torch::randn(captured[i].sizes(), captured[i].options().requires_grad(false));
      if (!captured[i].grad().defined()) captured[i].mutable_grad() = torch::empty_like(g);
      captured[i].mutable_grad().copy_(g);
      eager[i].mutable_grad() = g;
    }
  };
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  at::cuda::CUDAGraph graph;
  set_gradients();
  graphed.step();
  plain.step();
  stream.synchronize();
  graph.capture_begin();
  graphed.step();
  graph.capture_end();
  for (int step = 0; step < 5; ++step) {
    set_gradients();
    const double rate = options.lr() / (1 + step);  // a schedule
    graphed.param_groups()[0].options().set_lr(rate);
    plain.param_groups()[0].options().set_lr(rate);
    graphed.refresh_rates();
    graph.replay();
    plain.step();
  }
  stream.synchronize();
  for (size_t i = 0; i < captured.size(); ++i)
    EXPECT_TRUE(captured[i].equal(eager[i])) << captured[i].sizes();
}
#endif

}  // namespace step_test
