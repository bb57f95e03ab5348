#include <torch/torch.h>

#include <csignal>

#include "on_ranks.h"

namespace stiefel::world_test {

using test::on_ranks;

constexpr int64_t kSize = 3;

void sums_over_all_ranks(distributed::World& world) {
  ASSERT_EQ(world.size(), kSize);
  auto a = torch::arange(10, at::kDouble) * static_cast<double>(world.rank() + 1);
  auto b = torch::full({3, 2}, static_cast<float>(world.rank()));
  const auto first = world.start_sum_(a);
  const auto second = world.start_sum_(b);
  first->wait();
  second->wait();
  EXPECT_TRUE(a.equal(torch::arange(10, at::kDouble) * 6));  // 1 + 2 + 3
  EXPECT_TRUE(b.equal(torch::full({3, 2}, 3.F)));            // 0 + 1 + 2
}

void sums_have_the_same_bits_on_every_rank(distributed::World& world) {
  torch::manual_seed(world.rank());
  const auto a = torch::randn({1000, 7});
  world.ranks()->sum_(a);
  const auto all = world.ranks()->gather(a);
  ASSERT_EQ(all.size(0), kSize);
  for (int64_t rank = 0; rank < kSize; ++rank) EXPECT_TRUE(all[rank].equal(a));
}

void broadcasts_from_the_root(distributed::World& world) {
  auto a = torch::full({5}, static_cast<float>(world.rank()));
  world.broadcast_(a);
  EXPECT_TRUE(a.equal(torch::zeros({5})));
  a.fill_(static_cast<double>(world.rank()));
  world.broadcast_(a, 2);
  EXPECT_TRUE(a.equal(torch::full({5}, 2.F)));
}

void gathers_in_the_order_of_the_ranks(distributed::World& world) {
  const auto all = world.ranks()->gather(torch::full({2, 2}, static_cast<float>(world.rank())));
  EXPECT_TRUE(all.equal(torch::arange(kSize, at::kFloat).view({-1, 1, 1}).expand({-1, 2, 2})));
}

void names_the_ranks_that_differ(distributed::World& world) {
  world.require_equal("the weather", "sun");
  const std::string own = world.rank() == 1 ? "a = 1\nlr = 0.1\n" : "a = 1\nlr = 0.2\n";
  try {
    world.require_equal("config.toml", own);
    ADD_FAILURE() << "no error";
  } catch (const distributed::SharedError& error) {
    EXPECT_STREQ(
        error.what(),
        "the ranks differ in config.toml: rank 1 has 'lr = 0.1' where rank 0 has 'lr = 0.2'; start all "
        "ranks alike");
  }
  world.require_equal("the weather", "sun");
}

// As a write to a rank that is gone does: the one that writes is to name it, not to end.
void survives_a_broken_pipe(distributed::World& world) {
  ::raise(SIGPIPE);
  world.barrier();
}

// One launch for all of them: starting the ranks takes longer than what they do.
TEST(World, connects_the_ranks) {
  on_ranks(kSize, [](distributed::World& world) {
    sums_over_all_ranks(world);
    sums_have_the_same_bits_on_every_rank(world);
    broadcasts_from_the_root(world);
    gathers_in_the_order_of_the_ranks(world);
    names_the_ranks_that_differ(world);
    survives_a_broken_pipe(world);
  });
}

TEST(World, one_rank_is_a_world) {
  on_ranks(1, [](distributed::World& world) {
    auto a = torch::ones({3});
    world.start_sum_(a)->wait();
    EXPECT_TRUE(a.equal(torch::ones({3})));
    world.require_equal("a", "b");
  });
}

}  // namespace stiefel::world_test
