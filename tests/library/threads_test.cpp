#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <memory>
#include <thread>

#include "tests/support.h"

// Several threads of one program, each with an optimiser of its own.

namespace threads_test {

using at::Tensor;

/// Weights of shapes that take different paths, with gradients that depend on `seed` alone.
struct Training {
  std::vector<Tensor> weights, gradients;
  std::unique_ptr<torch::optim::Optimizer> optimizer;

  explicit Training(int64_t seed) {
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
    for (const auto& shape : {std::vector<int64_t>{8, 20}, {20, 8}, {12, 12}, {8, 20}, {1, 5}, {130, 1100}}) {
      auto weight = at::randn(shape, generator, at::TensorOptions(at::kFloat));
      stiefel::orthonormalize_(weight);
      weights.push_back(weight.requires_grad_());
      gradients.push_back(at::randn(shape, generator, at::TensorOptions(at::kFloat)));
    }
    switch (seed % 3) {
      case 0:
        optimizer =
            std::make_unique<stiefel::CayleySGD>(weights, stiefel::CayleySGDOptions(0.1).momentum(0.9));
        break;
      case 1:
        optimizer = std::make_unique<stiefel::CayleyAdam>(weights, stiefel::CayleyAdamOptions(0.1));
        break;
      default:
        optimizer = std::make_unique<stiefel::CayleyMuon>(weights, stiefel::CayleyMuonOptions(0.02));
    }
  }

  void run() {
    at::set_num_threads(1);  // of OpenMP, for this thread: sums are added in one order
    for (int step = 1; step <= 30; ++step) {
      for (size_t i = 0; i < weights.size(); ++i)
        weights[i].mutable_grad() = gradients[i] * std::cos(1.0 * step);
      optimizer->step();
    }
  }
};

TEST(Threads, StepOptimizersOfTheirOwnAsOneThreadDoes) {
  constexpr int64_t kThreads = 6;
  const int before = at::get_num_threads();
  std::vector<Training> alone, together;
  for (int64_t i = 0; i < kThreads; ++i) {
    alone.emplace_back(i);
    together.emplace_back(i);
  }
  for (auto& training : alone) training.run();
  std::vector<std::thread> threads;
  for (auto& training : together) threads.emplace_back([&training] { training.run(); });
  for (auto& thread : threads) thread.join();
  at::set_num_threads(before);
  for (size_t i = 0; i < alone.size(); ++i) {
    for (size_t w = 0; w < alone[i].weights.size(); ++w) {
      EXPECT_TRUE(torch::equal(alone[i].weights[w], together[i].weights[w]))
          << "training " << i << ", weight " << w;
      EXPECT_LT(support::defect(together[i].weights[w]), 1e-5);
    }
  }
}

}  // namespace threads_test
