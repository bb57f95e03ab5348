#include <numeric>
#include <optional>

#include "tests/support.h"
#include "tests/thread_ranks.h"

// Optimizers whose weights are divided among ranks, beside weights that every rank has.

namespace sharded_optimizer_test {

using at::Tensor;
using stiefel::ManifoldOptimizer;
using support::copy_of;
using support::run_ranks;
using Groups = std::vector<torch::optim::OptimizerParamGroup>;

/// Weights that are divided by columns and by rows, stacks, and one that every rank has whole.
struct Weights {
  std::vector<Tensor> wide, tall, stacks, whole;

  static Weights start() {
    const auto half = support::point({6, 30}, at::kFloat).detach().to(at::kBFloat16).requires_grad_();
    return {{support::point({5, 21}), support::point({4, 6, 3, 3}), half},
            {support::point({24, 7})},
            {support::point({3, 4, 18}, at::kDouble, true)},
            {support::point({6, 6}), support::point({3, 9}), support::point({8, 5})}};
  }

  std::vector<Tensor> all() const {
    std::vector<Tensor> result;
    for (const auto* list : {&wide, &tall, &stacks, &whole})
      result.insert(result.end(), list->begin(), list->end());
    return result;
  }
};

/// A rank's first element and number of elements of a dimension: uneven, and none on rank 1 of three or more.
std::pair<int64_t, int64_t> piece(int64_t length, int64_t rank, int64_t size) {
  if (size == 1) return {0, length};
  const int64_t first = length / 3;
  if (rank == 0) return {0, first};
  if (rank + 1 < size) return {first, 0};
  return {first, length - first};
}

Tensor part(const Tensor& t, int64_t axis, int64_t rank, int64_t size) {
  const auto [first, length] = piece(t.size(axis), rank, size);
  return t.detach().narrow(axis, first, length).clone().requires_grad_(t.requires_grad());
}

Weights part_of(const Weights& weights, int64_t rank, int64_t size) {
  Weights mine;
  for (const auto& w : weights.wide) mine.wide.push_back(part(w, 1, rank, size));
  for (const auto& w : weights.tall) mine.tall.push_back(part(w, 0, rank, size));
  for (const auto& w : weights.stacks) mine.stacks.push_back(part(w, 2, rank, size));
  for (const auto& w : weights.whole) mine.whole.push_back(copy_of(w));
  return mine;
}

Tensor gradient(const Tensor& whole, int64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return at::randn(whole.sizes(), generator, at::TensorOptions(at::kDouble))
      .mul_(0.2)
      .to(whole.scalar_type());
}

/// The gradients of a step of the whole weights, and of a rank's parts.
void set_gradients(const Weights& shapes, const Weights& mine, int64_t step, int64_t rank, int64_t size) {
  Weights gradients;
  int64_t seed = 100 * step;
  for (const auto& [from, to] : {std::pair{&shapes.wide, &gradients.wide},
                                 {&shapes.tall, &gradients.tall},
                                 {&shapes.stacks, &gradients.stacks},
                                 {&shapes.whole, &gradients.whole}}) {
    for (const auto& weight : *from) to->push_back(gradient(weight, ++seed));
  }
  const auto parts = part_of(gradients, rank, size).all();
  const auto weights = mine.all();
  for (size_t i = 0; i < weights.size(); ++i) support::set_gradient(weights[i], parts[i]);
}

enum class Method { kSgd, kAdam, kMuon };

template <class Optimizer, class Options>
std::unique_ptr<ManifoldOptimizer> make_of(const Weights& w, const Options& options, bool sharded) {
  const auto divided = [&](int64_t dim) {
    return sharded ? Options(options).shard_dim(dim) : Options(options);
  };
  const Groups groups{{w.wide, divided(1).clone()},
                      {w.tall, divided(0).clone()},
                      {w.stacks, divided(1).batched(true).clone()},
                      {w.whole, options.clone()}};
  return std::make_unique<Optimizer>(groups, options);
}

std::unique_ptr<ManifoldOptimizer> make(Method method, const Weights& w, bool sharded) {
  if (method == Method::kSgd) {
    return make_of<stiefel::CayleySGD>(w, stiefel::CayleySGDOptions(0.2).momentum(0.9), sharded);
  }
  if (method == Method::kAdam)
    return make_of<stiefel::CayleyAdam>(w, stiefel::CayleyAdamOptions(0.3), sharded);
  return make_of<stiefel::CayleyMuon>(w, stiefel::CayleyMuonOptions(0.05), sharded);
}

void train_alone(ManifoldOptimizer& optimizer, const Weights& weights, int64_t from, int64_t to) {
  for (int64_t step = from; step < to; ++step) {
    set_gradients(weights, weights, step, 0, 1);
    optimizer.step();
  }
}

/// Whether a rank's weights are its parts of the whole ones, up to rounding.
void expect_parts(const Weights& mine, const Weights& whole, int64_t rank, int64_t size) {
  const auto parts = part_of(whole, rank, size).all();
  const auto found = mine.all();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].numel() == 0) continue;
    const double bound = parts[i].scalar_type() == at::kBFloat16 ? 1.0 / 64 : 1e-11;
    EXPECT_LT(support::distance(found[i].to(at::kDouble), parts[i].to(at::kDouble)), bound) << "weight " << i;
  }
}

class ShardedOptimizers : public ::testing::TestWithParam<Method> {};
INSTANTIATE_TEST_SUITE_P(Methods, ShardedOptimizers,
                         ::testing::Values(Method::kSgd, Method::kAdam, Method::kMuon));

TEST_P(ShardedOptimizers, EqualOneProcess) {
  const auto start = Weights::start();
  const auto alone = part_of(start, 0, 1);
  const auto optimizer = make(GetParam(), alone, false);
  train_alone(*optimizer, alone, 0, 15);
  for (const int64_t size : {1, 2, 3, 4}) {
    run_ranks(size, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
      const auto mine = part_of(start, ranks->rank(), size);
      const auto sharded = make(GetParam(), mine, true);
      sharded->distribute(ranks);
      for (int64_t step = 0; step < 15; ++step) {
        set_gradients(start, mine, step, ranks->rank(), size);
        sharded->step();
      }
      expect_parts(mine, alone, ranks->rank(), size);
      EXPECT_EQ(sharded->skipped_steps(), 0);
    });
  }
}

TEST_P(ShardedOptimizers, AreSavedWholeAndGoOnWithAnotherNumberOfRanks) {
  const auto start = Weights::start();
  const auto alone = part_of(start, 0, 1);
  const auto optimizer = make(GetParam(), alone, false);
  train_alone(*optimizer, alone, 0, 6);
  const auto middle = part_of(alone, 0, 1);
  train_alone(*optimizer, alone, 6, 12);

  std::string bytes;
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto mine = part_of(start, ranks->rank(), 3);
    const auto sharded = make(GetParam(), mine, true);
    sharded->distribute(ranks);
    for (int64_t step = 0; step < 6; ++step) {
      set_gradients(start, mine, step, ranks->rank(), 3);
      sharded->step();
    }
    sharded->consolidate_states();
    if (ranks->rank() == 0) bytes = support::save(*sharded);
  });
  const auto resumed = part_of(middle, 0, 1);
  const auto own = make(GetParam(), resumed, false);
  support::load(*own, bytes);
  train_alone(*own, resumed, 6, 12);
  expect_parts(resumed, alone, 0, 1);
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto mine = part_of(middle, ranks->rank(), 2);
    const auto sharded = make(GetParam(), mine, true);
    sharded->distribute(ranks);
    support::load(*sharded, bytes);
    for (int64_t step = 6; step < 12; ++step) {
      set_gradients(start, mine, step, ranks->rank(), 2);
      sharded->step();
    }
    expect_parts(mine, alone, ranks->rank(), 2);
  });
}

TEST(ShardedOptimizer, MakesItsWeightsOrthonormalOnceItHasRanks) {
  const auto x = at::randn({5, 24}, at::kDouble);
  auto expected = x.clone();
  stiefel::orthonormalize_(expected);
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto mine = part(x, 1, ranks->rank(), 3).requires_grad_();
    const auto options = stiefel::CayleySGDOptions(0.1).shard_dim(1);
    stiefel::CayleySGD optimizer(std::vector<Tensor>{mine}, options);
    EXPECT_TRUE(mine.equal(part(x, 1, ranks->rank(), 3)));
    mine.mutable_grad() = at::zeros_like(mine);
    const auto message = support::error_of([&] { optimizer.step(); });
    EXPECT_NE(message.find("shard_dim = 1"), std::string::npos) << message;
    optimizer.distribute(ranks);
    EXPECT_LT((mine.detach() - part(expected, 1, ranks->rank(), 3)).abs().sum().item<double>(), 1e-11);
    mine.detach().mul_(4);
    const auto off = support::error_of([&] { optimizer.step(); });
    EXPECT_NE(off.find("1 sharded matrix was left in place"), std::string::npos) << off;
    EXPECT_EQ(optimizer.skipped_steps(), 1);
  });
}

TEST(ShardedOptimizer, LeavesAWeightWithoutGradientsAloneOnRanksWithEmptyPartsToo) {
  const auto start = support::point({4, 12}).detach();
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto used = part(start, 1, ranks->rank(), 3).requires_grad_();
    const auto unused = part(start, 1, ranks->rank(), 3).requires_grad_();
    stiefel::CayleySGD optimizer({used, unused}, stiefel::CayleySGDOptions(0.1).shard_dim(1));
    optimizer.distribute(ranks);
    const auto step = [&] {
      if (used.numel() > 0) used.mutable_grad() = at::ones_like(used);
      optimizer.step();
    };
    step();
    EXPECT_FALSE(unused.grad().defined());
    EXPECT_TRUE(unused.equal(part(start, 1, ranks->rank(), 3)));
    if (used.numel() > 0) {
      EXPECT_FALSE(used.equal(unused));
    } else {
      EXPECT_FALSE(used.grad().defined()) << "a step changes no gradients";
    }
    if (ranks->rank() == 2) unused.mutable_grad() = at::ones_like(unused);
    EXPECT_NE(
        support::error_of(step).find("rank 2 has a gradient of its part of a weight and rank 0 has none"),
        std::string::npos);
  });
}

TEST(ShardedOptimizer, RefusesPartsThatDoNotFit) {
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto mine = at::zeros({4 + ranks->rank(), 6}, at::kDouble).requires_grad_();
    stiefel::CayleySGD optimizer(std::vector<Tensor>{mine}, stiefel::CayleySGDOptions(0.1).shard_dim(1));
    const auto message = support::error_of([&] { optimizer.distribute(ranks); });
    EXPECT_NE(message.find("in dimension 0; only dimension 1 is divided"), std::string::npos) << message;
  });
  EXPECT_NE(support::error_of([] {
              stiefel::CayleySGD(std::vector<Tensor>{support::point({2, 4})},
                                 stiefel::CayleySGDOptions(0.1).shard_dim(2));
            }).find("shard_dim must be 0 or 1"),
            std::string::npos);
}

}  // namespace sharded_optimizer_test
