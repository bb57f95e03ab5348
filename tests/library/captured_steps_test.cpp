#include <ATen/record_function.h>

#include <atomic>
#include <string>

#include "src/cuda/plan_cache.h"
#include "src/optim/euclidean_steps.h"
#include "tests/support.h"

// What a captured step rests on, as far as it can be shown without a GPU: the forms of the Euclidean steps
// that read rates and counts from tensors ask nothing of the host, follow those tensors when they change, and
// agree with torch's own steps; and a plan that a graph may point into stays.

namespace captured_steps_test {

using at::Tensor;
using stiefel::detail::adam_formula_;
using stiefel::detail::GroupRate;
using stiefel::detail::sgd_formula_;

/// How often tensors were read on the host while `work` ran.
int host_reads(const std::function<void()>& work) {
  static std::atomic<int> reads;
  reads = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        if (std::string(call.name()).find("_local_scalar_dense") != std::string::npos) ++reads;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return reads;
}

TEST(HostReads, AreSeen) {
  EXPECT_EQ(host_reads([] { torch::ones({}).item<double>(); }), 1);
  EXPECT_EQ(host_reads([] { torch::ones({}).add_(1); }), 0);
}

/// The rate changes from step to step as a schedule would have it.
double rate_at(int step) { return 0.1 / (1 + step); }

TEST(EuclideanSteps, SgdByATensorsRateIsTorchs) {
  for (const bool nesterov : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      if (nesterov && momentum == 0) continue;
      const auto reference = torch::randn({6, 4}, at::kDouble).requires_grad_();
      auto ours = support::copy_of(reference).detach();
      torch::optim::SGD theirs(
          {reference},
          torch::optim::SGDOptions(0.1).momentum(momentum).nesterov(nesterov).weight_decay(0.05));
      const auto rate = torch::zeros({}, at::kDouble);
      Tensor buffer;
      for (int step = 0; step < 6; ++step) {
        support::randomize_gradients({reference}, 1);
        theirs.param_groups()[0].options().set_lr(rate_at(step));
        rate.fill_(rate_at(step));
        theirs.step();
        EXPECT_EQ(host_reads([&] {
                    sgd_formula_(ours, reference.grad(), buffer, {momentum, 0, nesterov}, 0.05, rate);
                  }),
                  0);
      }
      EXPECT_LT(support::distance(ours, reference), 1e-14);
    }
  }
}

TEST(EuclideanSteps, AdamByTensorsIsTorchs) {
  const auto run = [](auto theirs_type, auto options, bool decoupled) {
    using Theirs = typename decltype(theirs_type)::type;
    const auto reference = torch::randn({6, 4}, at::kDouble).requires_grad_();
    auto ours = support::copy_of(reference).detach();
    Theirs theirs({reference}, options);
    const auto rate = torch::zeros({}, at::kDouble), steps = torch::zeros({}, at::kDouble);
    const auto average = torch::zeros_like(ours), squares = torch::zeros_like(ours);
    for (int step = 0; step < 6; ++step) {
      support::randomize_gradients({reference}, 1);
      theirs.param_groups()[0].options().set_lr(rate_at(step));
      rate.fill_(rate_at(step));
      theirs.step();
      EXPECT_EQ(host_reads([&] {
                  adam_formula_(ours, reference.grad(), average, squares, steps.add_(1),
                                {0.9, 0.99, decoupled}, 1e-8, 0.05, rate);
                }),
                0);
    }
    EXPECT_LT(support::distance(ours, reference), 1e-13);
  };
  struct Adam {
    using type = torch::optim::Adam;
  };
  struct AdamW {
    using type = torch::optim::AdamW;
  };
  run(Adam{}, torch::optim::AdamOptions(0.1).betas({0.9, 0.99}).weight_decay(0.05), false);
  run(AdamW{}, torch::optim::AdamWOptions(0.1).betas({0.9, 0.99}).weight_decay(0.05), true);
}

TEST(EuclideanSteps, AFloatParameterStaysOne) {
  auto parameter = torch::ones({3}), buffer = Tensor();
  const auto rate = torch::full({}, 0.1, at::kDouble), steps = torch::zeros({}, at::kDouble);
  sgd_formula_(parameter, torch::ones({3}), buffer, {0.9, 0, false}, 0, rate);
  EXPECT_NEAR(parameter[0].item<double>(), 0.9, 1e-7);
  adam_formula_(parameter, torch::ones({3}), torch::zeros({3}), torch::zeros({3}), steps.add_(1),
                {0.9, 0.99, false}, 1e-8, 0, rate);
  EXPECT_NEAR(parameter[0].item<double>(), 0.8, 1e-6);
  EXPECT_EQ(parameter.scalar_type(), at::kFloat);
}

TEST(EuclideanSteps, RmspropByATensorsRateIsTorchs) {
  const auto reference = torch::randn({6, 4}, at::kDouble).requires_grad_();
  const auto ours = support::copy_of(reference).detach();
  torch::optim::RMSprop theirs({reference}, torch::optim::RMSpropOptions(0.1).alpha(0.9).weight_decay(0.05));
  GroupRate rate;
  rate.on(at::kCPU);
  Tensor squares;
  for (int step = 0; step < 6; ++step) {
    support::randomize_gradients({reference}, 1);
    theirs.param_groups()[0].options().set_lr(rate_at(step));
    rate.set(rate_at(step));
    theirs.step();
    const std::vector<Tensor> values{ours}, gradients{reference.grad()};
    EXPECT_EQ(host_reads([&] {
                stiefel::detail::euclidean_rmsprop_({values, gradients}, {&squares}, 0.9, 1e-8, 0.05, rate);
              }),
              0);
  }
  EXPECT_LT(support::distance(ours, reference), 1e-13);
}

TEST(GroupRate, FollowsTheHostOnEveryDevice) {
  GroupRate rate;
  EXPECT_FALSE(rate.has_copies());
  rate.set(0.5);
  const auto wide = rate.on(at::kCPU), narrow = rate.on(at::kCPU, at::kFloat);
  EXPECT_EQ(wide.scalar_type(), at::kDouble);
  EXPECT_EQ(narrow.scalar_type(), at::kFloat);
  rate.set(0.25);
  EXPECT_EQ(wide.item<double>(), 0.25);
  EXPECT_EQ(narrow.item<double>(), 0.25);
  EXPECT_TRUE(rate.on(at::kCPU).is_same(wide));
}

using Cache = stiefel::cuda::PlanCache<int, int>;

TEST(PlanCache, FindsAPlanAgainAndForgetsTheOldest) {
  Cache cache;
  int made = 0;
  const auto find = [&](int key, bool captured = false) {
    return *cache.find(key, captured, [&] { return ++made, 10 * key; });
  };
  for (int key = 0; key < static_cast<int>(Cache::kMost); ++key) EXPECT_EQ(find(key), 10 * key);
  EXPECT_EQ(find(0), 0);
  EXPECT_EQ(made, static_cast<int>(Cache::kMost));
  find(1000);  // the oldest is 1 now
  find(0);
  EXPECT_EQ(made, static_cast<int>(Cache::kMost) + 1);
  find(1);
  EXPECT_EQ(made, static_cast<int>(Cache::kMost) + 2);
}

TEST(PlanCache, KeepsWhatAGraphPointsInto) {
  Cache cache;
  const auto find = [&](int key, bool captured) { return cache.find(key, captured, [&] { return key; }); };
  find(7, false);
  const auto* pinned = find(7, true).get();
  std::weak_ptr<const int> loose = find(8, false);
  for (int key = 100; key < 500; ++key) find(key, false);
  EXPECT_TRUE(loose.expired());
  EXPECT_EQ(find(7, false).get(), pinned);
  EXPECT_EQ(cache.size(), Cache::kMost + 1);
}

}  // namespace captured_steps_test
