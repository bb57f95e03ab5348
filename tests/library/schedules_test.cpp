#include <stiefel/schedules.h>

#include "tests/support.h"

// Schedules are pure functions of the time.

namespace schedules_test {

TEST(Schedules, MultiStepDropsAtItsMilestones) {
  const auto f = stiefel::schedules::multi_step({120, 60, 160}, 0.2);
  EXPECT_EQ(f(0), 1);
  EXPECT_EQ(f(59.99), 1);
  EXPECT_NEAR(f(60), 0.2, 1e-15);
  EXPECT_NEAR(f(119), 0.2, 1e-15);
  EXPECT_NEAR(f(120), 0.04, 1e-15);
  EXPECT_NEAR(f(500), 0.008, 1e-15);
}

TEST(Schedules, CosineWarmUpAndComposition) {
  const auto c = stiefel::schedules::cosine(10, 0.1);
  EXPECT_NEAR(c(0), 1, 1e-15);
  EXPECT_NEAR(c(5), 0.55, 1e-15);
  EXPECT_NEAR(c(10), 0.1, 1e-15);
  EXPECT_NEAR(c(20), 0.1, 1e-15);
  const auto w = stiefel::schedules::warm_up(4, 0.2);
  EXPECT_NEAR(w(0), 0.2, 1e-15);
  EXPECT_NEAR(w(2), 0.6, 1e-15);
  EXPECT_NEAR(w(9), 1, 1e-15);
  const auto both = stiefel::schedules::product({w, c});
  EXPECT_NEAR(both(2), w(2) * c(2), 1e-15);
  const auto chained = stiefel::schedules::then(w, 4, c);
  EXPECT_NEAR(chained(3), w(3), 1e-15);
  EXPECT_NEAR(chained(9), c(5), 1e-15);
}

TEST(Schedules, ApplyScalesEachGroupsBaseAndForgetsNothing) {
  const auto a = support::point({4, 9});
  const auto b = torch::randn({3}, at::kDouble).requires_grad_();
  const auto free = stiefel::CayleySGDOptions(0.01).manifold(stiefel::Manifold::kEuclidean);
  stiefel::CayleySGD optimizer({{{a}}, {{b}, free.clone()}}, stiefel::CayleySGDOptions(0.2));
  const stiefel::Schedule schedule(optimizer, stiefel::schedules::multi_step({2, 4}, 0.5));
  const auto rate = [&](size_t i) { return optimizer.param_groups()[i].options().get_lr(); };
  for (const double epoch : {5.0, 0.0, 3.0, 3.0}) {  // in any order, any number of times
    schedule.apply(optimizer, epoch);
    EXPECT_NEAR(rate(0), 0.2 * schedule.factor(epoch), 1e-15);
    EXPECT_NEAR(rate(1), 0.01 * schedule.factor(epoch), 1e-15);
  }
  torch::optim::Adam plain({b}, torch::optim::AdamOptions(0.3));
  stiefel::Schedule({0.5}, stiefel::schedules::cosine(2)).apply(plain, 1);
  EXPECT_NEAR(plain.param_groups()[0].options().get_lr(), 0.25, 1e-15);
  EXPECT_ERROR(schedule.apply(plain, 0), "2 base rates");
}

TEST(Schedules, BadArgumentsAreNamed) {
  EXPECT_ERROR(stiefel::schedules::cosine(0), "duration");
  EXPECT_ERROR(stiefel::schedules::cosine(5, 2), "floor");
  EXPECT_ERROR(stiefel::schedules::warm_up(-1), "duration");
  EXPECT_ERROR(stiefel::schedules::multi_step({1}, std::nan("")), "gamma");
}

}  // namespace schedules_test
