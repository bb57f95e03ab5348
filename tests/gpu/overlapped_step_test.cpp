#include <stiefel/optim/overlapped_step.h>
#include <torch/cuda.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support.h"
#include "train/step_graph.h"

// Steps behind the backward pass on a GPU: in a CUDA graph, on a stream beside that of the backward pass,
// they end with the bits of plain steps kernel by kernel. Without a GPU everything here is skipped.

namespace overlapped_step_gpu_test {

using at::Tensor;
using stiefel::ManifoldOptimizer;
using stiefel::OverlappedStep;
using stiefel::train::StepGraph;
using Maker =
    std::function<std::unique_ptr<ManifoldOptimizer>(std::vector<torch::optim::OptimizerParamGroup>)>;

const at::Device kCuda(at::kCUDA);

class OverlappedStepOnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(7);
    // What the allocator hands out next is full of NaN, so nothing may be read before it is written.
    for (int i = 0; i < 3; ++i) torch::full({64 << 20}, std::numeric_limits<float>::quiet_NaN(), kCuda);
  }
};

/// A chain of layers whose gradients have the same bits in every run: sums and products of numbers alone.
struct Chain {
  std::vector<Tensor> weights, biases;
  std::vector<Tensor> factors;  // of each layer, replaced from step to step
  std::vector<Tensor> scales;   // of each weight's gradient: 1, or not a number

  Chain() {
    for (const auto& [p, n] : std::initializer_list<std::pair<int64_t, int64_t>>{{16, 27},
                                                                                 {64, 576},
                                                                                 {64, 576},
                                                                                 {100, 100},
                                                                                 {128, 1152},
                                                                                 {256, 1152},
                                                                                 {256, 2304},
                                                                                 {256, 2304}}) {
      auto weight = torch::empty({p, n});
      stiefel::init::haar_(weight);
      weights.push_back(weight.to(kCuda).requires_grad_());
      biases.push_back(torch::zeros({n}, kCuda).requires_grad_());
      factors.push_back(torch::zeros({p, n}, kCuda));
      scales.push_back(torch::ones({}, kCuda));
    }
  }
  Chain copy() const {
    Chain other = *this;
    for (auto* list : {&other.weights, &other.biases, &other.factors, &other.scales}) {
      for (auto& t : *list) t = support::copy_of(t);
    }
    return other;
  }
  Tensor loss() const {
    auto x = torch::ones({}, kCuda);
    for (size_t i = 0; i < weights.size(); ++i) {
      // Passes over memory, behind which there is time for a step.
      const auto weight = weights[i] * 1;
      weight.register_hook([scale = scales[i]](const Tensor& gradient) { return gradient * scale; });
      auto y = (weight + biases[i]) * factors[i];
      for (int round = 0; round < 20; ++round) y = torch::tanh(y * 1.01);
      x = torch::tanh(x * 0.5 + y.sum() / std::sqrt(static_cast<double>(y.numel())));
    }
    return x;
  }
  std::vector<torch::optim::OptimizerParamGroup> groups(
      const torch::optim::OptimizerOptions& euclidean) const {
    std::vector<torch::optim::OptimizerParamGroup> all;
    all.emplace_back(weights);
    all.emplace_back(biases, euclidean.clone());
    return all;
  }
};

template <class Optimizer, class Options>
Maker maker(const Options& options) {
  return [options](std::vector<torch::optim::OptimizerParamGroup> groups) {
    return std::make_unique<Optimizer>(std::move(groups), options);
  };
}

template <class Options>
std::unique_ptr<torch::optim::OptimizerOptions> euclidean_of(const Options& options) {
  return Options(options).manifold(stiefel::Manifold::kEuclidean).clone();
}

/// `spoil` runs at the end of the closure of a step's passes.
template <class Optimizer, class Options>
void expect_graph_equals_plain(
    const Options& options, double tolerance, bool captures = true,
    const std::function<void()>& spoil = [] {}) {
  const Chain plain;
  const auto overlapped = plain.copy();
  const auto euclidean = euclidean_of(options);
  const auto first = maker<Optimizer>(options)(plain.groups(*euclidean));
  const auto second = maker<Optimizer>(options)(overlapped.groups(*euclidean));
  OverlappedStep step(*second);
  StepGraph graph(kCuda, true);
  for (int turn = 0; turn < 12; ++turn) {
    for (size_t i = 0; i < plain.factors.size(); ++i) {
      plain.factors[i].normal_();
      overlapped.factors[i].copy_(plain.factors[i]);
      for (const auto* chain : {&plain, &overlapped}) {
        chain->scales[i].fill_(turn == 7 && i == 4 ? NAN : 1.0);  // is left in place, and counted
      }
    }
    const double rate = options.lr() / (1 + turn);  // a schedule
    for (auto* optimizer : {first.get(), second.get()}) {
      optimizer->param_groups()[0].options().set_lr(rate);
      optimizer->refresh_rates();
    }
    first->zero_grad();
    plain.loss().backward();
    first->step();
    graph.run([&] {
      second->zero_grad();
      step.step([&] {
        auto loss = overlapped.loss();
        loss.backward();
        spoil();
        return loss;
      });
    });
  }
  torch::cuda::synchronize();
  EXPECT_EQ(graph.captured(), captures) << graph.reason();
  EXPECT_EQ(step.stepped_behind(), static_cast<int64_t>(plain.weights.size()));
  EXPECT_GT(step.parts().size(), 1u);
  EXPECT_EQ(first->skipped_steps(), 1);
  EXPECT_EQ(second->skipped_steps(), 1);
  for (size_t i = 0; i < plain.weights.size(); ++i) {
    const auto &a = plain.weights[i], &b = overlapped.weights[i];
    EXPECT_LE(support::distance(a, b), tolerance) << "weight " << i << " of shape " << a.sizes();
  }
  for (size_t i = 0; i < plain.biases.size(); ++i) {
    EXPECT_LE(support::distance(plain.biases[i], overlapped.biases[i]), tolerance) << "bias " << i;
  }
}

TEST_F(OverlappedStepOnCuda, InAGraphEqualsPlainStepsBitForBit) {
  constexpr auto kMixed = stiefel::Precision::kMixed;
  expect_graph_equals_plain<stiefel::CayleySGD>(
      stiefel::CayleySGDOptions(0.1).momentum(0.9).precision(kMixed), 0);
  expect_graph_equals_plain<stiefel::CayleyAdam>(stiefel::CayleyAdamOptions(0.1).precision(kMixed), 0);
  expect_graph_equals_plain<stiefel::CayleyMuon>(stiefel::CayleyMuonOptions(0.02).precision(kMixed), 0);
}

TEST_F(OverlappedStepOnCuda, InAGraphEqualsPlainStepsByOperators) {
  // The products are cuBLAS's, which may choose another algorithm on another stream.
  expect_graph_equals_plain<stiefel::CayleySGD>(stiefel::CayleySGDOptions(0.1).momentum(0.9), 1e-5);
  using Options = stiefel::RetractionSGDOptions<stiefel::Polar>;
  expect_graph_equals_plain<stiefel::RetractionSGD<stiefel::Polar>>(
      Options(0.05).retraction({stiefel::Polar::By::kNewtonSchulz}), 1e-5);
}

TEST_F(OverlappedStepOnCuda, ACaptureThatFailsAfterPartsHaveBegunIsTakenBack) {
  const auto number = torch::zeros({}, kCuda);
  expect_graph_equals_plain<stiefel::CayleySGD>(
      stiefel::CayleySGDOptions(0.1).momentum(0.9).precision(stiefel::Precision::kMixed), 0,
      /*captures=*/false, [&] { (void)number.item<double>(); });
}

}  // namespace overlapped_step_gpu_test
