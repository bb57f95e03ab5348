#include <algorithm>
#include <numeric>
#include <optional>

#include "tests/support.h"
#include "tests/thread_ranks.h"

// Ranks that hold the same weights and share their steps.

namespace shared_steps_test {

using at::Tensor;
using stiefel::Manifold;
using stiefel::ManifoldOptimizer;
using support::copy_of;
using support::run_ranks;
using Groups = std::vector<torch::optim::OptimizerParamGroup>;

/// Wide, tall, square, stacked, complex and channels-last weights, one in half precision, and one that is
/// free.
struct Weights {
  std::vector<Tensor> plain, stacks;
  Tensor free;

  Weights() {
    const auto last =
        support::point({6, 3, 4, 4}, at::kFloat).detach().contiguous(at::MemoryFormat::ChannelsLast);
    const auto half = support::point({6, 10}, at::kFloat).detach().to(at::kBFloat16);
    plain = {support::point({5, 12}),
             support::point({12, 5}),
             support::point({7, 7}),
             support::point({4, 9}),
             support::point({5, 6}, at::kComplexDouble),
             last.requires_grad_(),
             half.requires_grad_()};
    stacks = {support::point({3, 4, 6}, at::kDouble, true)};
    free = torch::randn({4, 3}, at::kDouble).requires_grad_();
  }

  Weights(const Weights& other) : free(copy_of(other.free)) {
    for (const auto& weight : other.plain) plain.push_back(copy_of(weight));
    for (const auto& weight : other.stacks) stacks.push_back(copy_of(weight));
  }

  std::vector<Tensor> all() const {
    auto result = plain;
    result.insert(result.end(), stacks.begin(), stacks.end());
    result.push_back(free);
    return result;
  }
};

enum class Method { kSgd, kAdam, kMuon, kQr };
constexpr Method kMethods[] = {Method::kSgd, Method::kAdam, Method::kMuon, Method::kQr};

template <class Optimizer, class Options>
std::unique_ptr<ManifoldOptimizer> make_of(const Weights& w, const Options& options) {
  const Groups groups{{w.plain, options.clone()},
                      {w.stacks, Options(options).batched(true).clone()},
                      {{w.free}, Options(options).lr(0.01).manifold(Manifold::kEuclidean).clone()}};
  return std::make_unique<Optimizer>(groups, options);
}

std::unique_ptr<ManifoldOptimizer> make(Method method, const Weights& w) {
  switch (method) {
    case Method::kSgd:
      return make_of<stiefel::CayleySGD>(w, stiefel::CayleySGDOptions(0.2).momentum(0.9));
    case Method::kAdam:
      return make_of<stiefel::CayleyAdam>(w, stiefel::CayleyAdamOptions(0.3));
    case Method::kMuon:
      return make_of<stiefel::CayleyMuon>(w, stiefel::CayleyMuonOptions(0.05));
    case Method::kQr:
      break;
  }
  using Qr = stiefel::RetractionSGD<stiefel::Qr>;
  return make_of<Qr>(w, stiefel::RetractionSGDOptions<stiefel::Qr>(0.1).momentum(0.9));
}

/// The gradients of a step: those of Σ‖X − Aᵢ‖²/2 with targets that depend on the step alone.
void set_gradients(const Weights& weights, int step) {
  int64_t seed = 1000 * step;
  for (const auto& weight : weights.all()) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(++seed));
    const auto wide = weight.is_complex() ? at::kComplexDouble : at::kDouble;
    const auto target = at::randn(weight.sizes(), generator, at::TensorOptions(wide));
    support::set_gradient(weight, (weight.detach().to(wide) - target).to(weight.scalar_type()));
  }
}

void train(ManifoldOptimizer& optimizer, const Weights& weights, int from, int to) {
  for (int step = from; step < to; ++step) {
    set_gradients(weights, step);
    optimizer.step();
  }
}

/// How far apart two sets of weights are, in units in which 1 is rounding of their types.
double distance(const Weights& a, const Weights& b) {
  double most = 0;
  const auto as = a.all(), bs = b.all();
  for (size_t i = 0; i < as.size(); ++i) {
    const auto type = as[i].scalar_type();
    const double unit = type == at::kBFloat16 ? 1.0 / 64 : type == at::kFloat ? 2e-5 : 1e-12;
    const auto wide = as[i].is_complex() ? at::kComplexDouble : at::kDouble;
    most = std::max(most,
                    support::distance(as[i].detach().to(wide).abs(), bs[i].detach().to(wide).abs()) / unit);
  }
  return most;
}

class SharedSteps : public ::testing::TestWithParam<Method> {};
INSTANTIATE_TEST_SUITE_P(Methods, SharedSteps, ::testing::ValuesIn(kMethods));

TEST_P(SharedSteps, EqualTheStepsOfOneProcessOnAnyNumberOfRanks) {
  const Weights start;
  const Weights alone(start);
  const auto optimizer = make(GetParam(), alone);
  train(*optimizer, alone, 0, 20);
  for (const int64_t size : {1, 2, 3, 4, 20}) {  // with 20, more ranks than weights
    std::vector<Weights> of_ranks(static_cast<size_t>(size), start);
    run_ranks(size, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
      const auto& mine = of_ranks[static_cast<size_t>(ranks->rank())];
      const auto shared = make(GetParam(), mine);
      shared->distribute(ranks);
      train(*shared, mine, 0, 20);
    });
    EXPECT_LT(distance(of_ranks[0], alone), 1) << size << " ranks";
    EXPECT_GT(distance(of_ranks[0], start), 1e6);
    for (const auto& other : of_ranks) {
      for (size_t i = 0; i < start.all().size(); ++i) {
        EXPECT_TRUE(other.all()[i].equal(of_ranks[0].all()[i])) << size << " ranks, weight " << i;
      }
    }
  }
}

TEST_P(SharedSteps, GoOnFromAnArchiveWithAnotherNumberOfRanks) {
  const Weights start;
  const Weights alone(start);
  const auto optimizer = make(GetParam(), alone);
  train(*optimizer, alone, 0, 12);

  std::optional<Weights> middle;
  std::string bytes;
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const Weights mine(start);
    const auto shared = make(GetParam(), mine);
    shared->distribute(ranks);
    train(*shared, mine, 0, 5);
    shared->consolidate_states(1);
    if (ranks->rank() == 1) {
      bytes = support::save(*shared);
      middle.emplace(mine);
    } else {
      EXPECT_NE(support::error_of([&] { support::save(*shared); }).find("consolidate_states"),
                std::string::npos);
    }
    train(*shared, mine, 5, 6);
    EXPECT_NE(support::error_of([&] { support::save(*shared); }).find("consolidate_states"),
              std::string::npos);
  });
  // On its own, and on two ranks.
  const Weights resumed(*middle);
  const auto own = make(GetParam(), resumed);
  support::load(*own, bytes);
  train(*own, resumed, 5, 12);
  EXPECT_LT(distance(resumed, alone), 1);
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const Weights mine(*middle);
    const auto shared = make(GetParam(), mine);
    shared->distribute(ranks);
    support::load(*shared, bytes);
    train(*shared, mine, 5, 12);
    EXPECT_LT(distance(mine, alone), 1);
  });
}

TEST(SharedStepCounts, AreThoseOfAllRanks) {
  const Weights start;
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const Weights mine(start);
    const auto shared = make(Method::kSgd, mine);
    shared->distribute(ranks);
    set_gradients(mine, 0);
    for (const auto& weight : {mine.plain[0], mine.plain[2], mine.stacks[0]})
      weight.mutable_grad()[0][0] = NAN;
    shared->step();
    EXPECT_EQ(shared->skipped_steps(), 3);
    EXPECT_TRUE(mine.plain[0].equal(start.plain[0]));
    EXPECT_FALSE(mine.plain[1].equal(start.plain[1]));
    shared->consolidate_states();
    if (ranks->rank() != 0) return;
    const auto bytes = support::save(*shared);
    const auto other = make(Method::kSgd, mine);
    support::load(*other, bytes);
    EXPECT_EQ(other->skipped_steps(), 3);
  });
}

TEST(SharedStepErrors, AboutAMatrixOffTheManifoldReachEveryRank) {
  const Weights start;
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const Weights mine(start);
    const auto shared = make(Method::kSgd, mine);
    shared->distribute(ranks);
    mine.plain[3].detach().mul_(5);
    set_gradients(mine, 0);
    const auto message = support::error_of([&] { shared->step(); });
    EXPECT_NE(message.find("1 matrix was left in place: a weight of shape [4, 9]"), std::string::npos)
        << message;
    EXPECT_FALSE(mine.plain[1].equal(start.plain[1])) << "all others have moved";
    // All ranks go on.
    stiefel::orthonormalize_(mine.plain[3].detach());
    set_gradients(mine, 1);
    shared->step();
    EXPECT_EQ(shared->skipped_steps(), 1);
  });
}

TEST(SharedWeights, TakeWeightsThatAreAddedLater) {
  const Weights start;
  const auto added = support::point({8, 20});
  const Weights alone(start);
  const auto own = make(Method::kSgd, alone);
  const auto own_added = copy_of(added);
  const auto add = [](ManifoldOptimizer& optimizer, const Tensor& weight) {
    optimizer.add_param_group({{weight}, stiefel::CayleySGDOptions(0.1).momentum(0.9).clone()});
  };
  const auto steps = [](ManifoldOptimizer& optimizer, const Weights& weights, const Tensor& more, int from,
                        int to) {
    for (int step = from; step < to; ++step) {
      support::set_gradient(more, torch::ones_like(more).triu(step));
      train(optimizer, weights, step, step + 1);
    }
  };
  train(*own, alone, 0, 3);
  add(*own, own_added);
  steps(*own, alone, own_added, 3, 8);
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const Weights mine(start);
    const auto more = copy_of(added);
    const auto shared = make(Method::kSgd, mine);
    shared->distribute(ranks);
    train(*shared, mine, 0, 3);
    add(*shared, more);
    steps(*shared, mine, more, 3, 8);
    EXPECT_LT(distance(mine, alone), 1);
    EXPECT_LT(support::distance(more, own_added), 1e-12);
  });
}

TEST(SharedWeights, AreEqualWhereTheirBitsAre) {
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    // As many numbers as several threads add up, in types of two, four and eight bytes, and one that is not a
    // number.
    std::vector<Tensor> same;
    for (const auto type : {at::kFloat, at::kDouble, at::kComplexDouble, at::kBFloat16}) {
      same.push_back(at::ones({1, 70001}, at::kDouble).div_(std::sqrt(70001.0)).to(type).requires_grad_());
    }
    stiefel::CayleySGD optimizer(same, stiefel::CayleySGDOptions(0.1).orthonormalize_on_start(false));
    if (ranks->rank() == 0) same[0].data()[0][5] = NAN;
    const auto message = support::error_of([&] { optimizer.distribute(ranks); });
    EXPECT_NE(message.find("of rank 1 are not those of rank 0"), std::string::npos) << message;
    same[0].data()[0][5] = NAN;
    optimizer.distribute(ranks);
  });
}

TEST(SharedWeights, RefuseWeightsThatDiffer) {
  const Weights start;
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const Weights mine(start);
    if (ranks->rank() == 2) stiefel::init::haar_(mine.plain[4]);
    const auto shared = make(Method::kSgd, mine);
    const auto message = support::error_of([&] { shared->distribute(ranks); });
    EXPECT_NE(message.find("of rank 2 are not those of rank 0"), std::string::npos) << message;
  });
}

TEST(SharedWeights, GiveEachRankTheWeightsOnceAndNoMore) {
  const Weights start;
  const int64_t size = 3;
  run_ranks(size, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const Weights mine(start);
    const auto shared = make(Method::kSgd, mine);
    shared->distribute(ranks);
    train(*shared, mine, 0, 1);
    const auto before = ranks->bytes();
    train(*shared, mine, 1, 2);
    int64_t all = 0, largest = 0;
    for (const auto& weight : mine.all()) {
      const auto bytes = static_cast<int64_t>(weight.nbytes());
      if (!weight.is_same(mine.free)) all += bytes, largest = std::max(largest, bytes);
    }
    // One message: a third of the weights, up to the most expensive one, with padding and two counts.
    EXPECT_LE(ranks->bytes() - before, all / size + largest + 16 * 9);
  });
}

TEST(Owners, ShareTheCostEvenly) {
  std::vector<int64_t> costs;
  for (int64_t i = 0; i < 40; ++i) costs.push_back(1 + (i * 7919) % 101);
  for (const int64_t ranks : {1, 2, 3, 7, 40, 64}) {
    std::vector<int64_t> loads;
    const auto owners = stiefel::assign_owners(costs, ranks, loads);
    std::vector<int64_t> counted(static_cast<size_t>(ranks));
    for (size_t i = 0; i < costs.size(); ++i) counted.at(static_cast<size_t>(owners[i])) += costs[i];
    EXPECT_EQ(loads, counted);
    // Graham's bound for the longest first: 4/3 of the best there can be, which is the mean or the largest.
    const auto sum = std::accumulate(costs.begin(), costs.end(), int64_t{0});
    const double best = std::max(static_cast<double>(sum) / static_cast<double>(ranks),
                                 static_cast<double>(*std::max_element(costs.begin(), costs.end())));
    EXPECT_LE(static_cast<double>(*std::max_element(loads.begin(), loads.end())), best * 4 / 3 + 1);
  }
  std::vector<int64_t> loads;
  EXPECT_NE(support::error_of([&] { stiefel::assign_owners(costs, 0, loads); }).find("got 0"),
            std::string::npos);
}

TEST(Owners, CountWhatAStepCosts) {
  EXPECT_EQ(stiefel::step_cost({5, 12}), 12 * 25 + 125);
  EXPECT_EQ(stiefel::step_cost({12, 5}), 12 * 25 + 125);
  EXPECT_EQ(stiefel::step_cost({6, 3, 2, 2}), 12 * 36 + 216);
  EXPECT_EQ(stiefel::step_cost({3, 4, 6}, true), 3 * (6 * 16 + 64));
}

}  // namespace shared_steps_test
