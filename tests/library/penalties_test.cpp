#include "penalty_reference.h"
#include "tests/support.h"

// The penalties against their definitions, and their gradients against central differences of these.

namespace penalties_test {

using namespace penalty_reference;
using stiefel::PenaltyOptions;

PenaltyOptions options(bool batched = false, int64_t rounds = 2, uint64_t seed = kSeed) {
  PenaltyOptions result;
  result.batched = batched;
  result.rounds = rounds;
  result.generator = at::detail::createCPUGenerator(seed);
  return result;
}

Tensor gradient_of(const Tensor& value, const Tensor& weight) {
  return torch::autograd::grad({value}, {weight})[0];
}

TEST(Penalties, ValuesAreTheDefinitions) {
  for (const auto type : kTypes) {
    for (const auto& shape : kShapes) {
      const auto weight = weight_of(shape, type);
      for (const auto kind : kKinds) {
        SCOPED_TRACE(std::string(shape.name) + " " + to_string(kind) + " " + c10::toString(type));
        for (const int64_t rounds : {1, 2, 5}) {
          const auto value = stiefel::penalty(kind, {weight}, options(shape.batched, rounds));
          const double exact = expected(kind, in_reading_order(weight, shape), shape.batched, rounds);
          EXPECT_EQ(value.dim(), 0);
          EXPECT_EQ(value.scalar_type(), at::kDouble);
          EXPECT_NEAR(value.item<double>(), exact, 1e-11 * exact);
        }
      }
    }
  }
}

TEST(Penalties, GradientsMatchCentralDifferences) {
  for (const auto type : kTypes) {
    for (const auto& shape : kShapes) {
      const auto weight = weight_of(shape, type).requires_grad_(true);
      for (const auto kind : kKinds) {
        for (const int64_t rounds : {1, 2, 3, 4}) {
          if (kind != Penalty::kSrip && rounds > 1) continue;
          SCOPED_TRACE(std::string(shape.name) + " " + to_string(kind) + " " + c10::toString(type) + " " +
                       std::to_string(rounds));
          const auto value = stiefel::penalty(kind, {weight}, options(shape.batched, rounds));
          const auto gradient = gradient_of(value, weight);
          const auto slopes = differences(
              [&](const Tensor& w) {
                return expected(kind, in_reading_order(w, shape), shape.batched, rounds);
              },
              weight);
          ASSERT_EQ(gradient.sizes(), weight.sizes());
          EXPECT_LT(relative(gradient, slopes), 1e-7);
        }
      }
    }
  }
}

TEST(Penalties, ThreeFunctionsAreThePenaltiesOfOneWeight) {
  const auto weight = torch::randn({2, 3, 5}, at::kDouble);
  for (const bool batched : {false, true}) {
    EXPECT_EQ(stiefel::so_penalty(weight, batched).item<double>(),
              stiefel::penalty(Penalty::kSo, {weight}, options(batched)).item<double>());
    EXPECT_EQ(stiefel::dso_penalty(weight, batched).item<double>(),
              stiefel::penalty(Penalty::kDso, {weight}, options(batched)).item<double>());
    EXPECT_EQ(stiefel::srip_penalty(weight, options(batched)).item<double>(),
              stiefel::penalty(Penalty::kSrip, {weight}, options(batched)).item<double>());
  }
  EXPECT_NE(stiefel::so_penalty(weight).item<double>(), stiefel::so_penalty(weight, true).item<double>());
  EXPECT_NE(stiefel::dso_penalty(weight).item<double>(), stiefel::dso_penalty(weight, true).item<double>());
}

TEST(Penalties, SripGrowsToTheSpectralNorm) {
  for (const auto type : kTypes) {
    for (const double scale : {0.05, 0.4}) {  // E negative definite, and with both signs
      const auto k = torch::randn({6, 20}, type) * scale;
      const double norm = at::linalg_eigvalsh(gap(k)).abs().max().item<double>();
      double before = 0;
      for (const int64_t rounds : {1, 2, 4, 8, 1000}) {
        const double value = stiefel::srip_penalty(k, options(false, rounds)).item<double>();
        EXPECT_GE(value, before * (1 - 1e-12));
        EXPECT_LE(value, norm * (1 + 1e-12));
        before = value;
      }
      EXPECT_NEAR(before, norm, 1e-6 * norm);
    }
  }
}

TEST(Penalties, VanishOnTheManifold) {
  for (const auto type : kTypes) {
    const auto weight = support::point({4, 3, 3, 3}, type);
    for (const auto kind : kKinds) {
      SCOPED_TRACE(to_string(kind));
      const auto value = stiefel::penalty(kind, {weight}, options());
      EXPECT_NEAR(value.item<double>(), kind == Penalty::kDso ? 27 - 4 : 0, 1e-13);
      const auto gradient = gradient_of(value, weight);
      EXPECT_TRUE(at::isfinite(at::view_as_real(gradient.to(at::kComplexDouble))).all().item<bool>());
      if (kind == Penalty::kSrip) continue;
      EXPECT_LT(support::distance(gradient, torch::zeros_like(gradient)), 1e-13);
    }
  }
}

TEST(Penalties, AreExactlyZeroWhereTheDriftIs) {
  for (const auto type : {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    // A stack, so that a matrix at zero meets one that is not.
    auto weight = torch::zeros({2, 3, 5}, type);
    weight[0].diagonal().fill_(1);
    weight[1].diagonal().fill_(2);
    weight.requires_grad_(true);
    for (const auto kind : {Penalty::kSo, Penalty::kSrip}) {
      for (const int64_t rounds : {1, 2, 3}) {
        const auto value = stiefel::penalty(kind, {weight}, options(true, rounds));
        EXPECT_NEAR(value.item<double>(), kind == Penalty::kSo ? 27 : 3, 1e-5);  // E = 3I
        const auto gradient = gradient_of(value, weight);
        EXPECT_EQ(squares(gradient[0]), 0);
        EXPECT_TRUE(std::isfinite(squares(gradient[1])));
        EXPECT_GT(squares(gradient[1]), 1);
      }
    }
  }
}

TEST(Penalties, OfAListAreTheSumsOverItsWeights) {
  for (const auto type : kTypes) {
    // Weights of one shape in different layouts, and large ones.
    std::vector<Tensor> weights;
    for (const auto& shape : kShapes) {
      if (shape.batched) continue;
      for (int64_t i = 0; i < 3; ++i) weights.push_back(weight_of(shape, type));
    }
    for (int64_t i = 0; i < 5; ++i) weights.push_back(torch::randn({64, 9 * 32}, type) * 0.05);
    weights.push_back(torch::randn({70, 32, 31}, type) * 0.01);
    for (auto& weight : weights) weight.requires_grad_(true);
    for (const auto kind : {Penalty::kSo, Penalty::kDso}) {
      const auto together = stiefel::penalty(kind, weights);
      const auto gradients = torch::autograd::grad({together}, weights);
      double sum = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        const auto one = stiefel::penalty(kind, {weights[i]});
        sum += one.item<double>();
        EXPECT_LT(relative(gradients[i], gradient_of(one, weights[i])), 1e-13);
      }
      EXPECT_NEAR(together.item<double>(), sum, 1e-12 * sum);
    }
  }
}

TEST(Penalties, SripOfAListTakesEachMatrixItsOwnStart) {
  for (const auto type : kTypes) {
    // Two shapes mixed: 3×5 (once tall) and 2×4. The starts are drawn shape by shape.
    std::vector<Tensor> weights = {torch::randn({3, 5}, type), torch::randn({2, 4}, type),
                                   torch::randn({5, 3}, type), torch::randn({2, 2, 2}, type)};
    for (auto& weight : weights) weight.requires_grad_(true);
    auto generator = at::detail::createCPUGenerator(kSeed);
    const auto threes = torch::randn({2, 3, 1}, generator, type);
    const auto twos = torch::randn({2, 2, 1}, generator, type);
    const std::vector<Tensor> start = {threes[0], twos[0], threes[1], twos[1]};
    const auto value = stiefel::penalty(Penalty::kSrip, weights, options(false, 3));
    const auto gradients = torch::autograd::grad({value}, weights);
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto f = [&](const Tensor& w) {
        return power_iteration(gap(matrices(w, false)[0]), start[i], 3);
      };
      sum += f(weights[i].detach());
      EXPECT_LT(relative(gradients[i], differences(f, weights[i])), 1e-7);
    }
    EXPECT_NEAR(value.item<double>(), sum, 1e-12 * sum);
  }
}

TEST(Penalties, OfManyMatricesAreTheSumsOverThem) {
  const auto randn = [](at::IntArrayRef sizes) { return torch::randn(sizes, at::kDouble) * 0.3; };
  // Lists of one shape that are cut: a long stack, one that has to be copied first, a long stack before and
  // after a short one, and several weights that fill more than a chunk.
  const std::vector<std::pair<bool, std::vector<Tensor>>> lists = {
      {true, {randn({30, 100, 4, 8})}},
      {true, {randn({100, 30, 8, 4}).transpose(0, 1)}},
      {true, {randn({2, 4, 8}), randn({3000, 4, 8}), randn({2, 8, 4}), randn({3, 4, 8})}},
      {false, {randn({64, 288}), randn({64, 288}), randn({288, 64}), randn({64, 32, 9}), randn({64, 288})}},
  };
  for (const auto& [batched, weights] : lists) {
    std::vector<Tensor> directions;
    for (const auto& weight : weights) {
      weight.set_requires_grad(true);
      directions.push_back(torch::randn_like(weight.detach()));
    }
    for (const auto kind : kKinds) {
      SCOPED_TRACE(to_string(kind));
      const auto along = [&, batched = batched, &list = weights](double t) {
        std::vector<Tensor> all;
        for (size_t i = 0; i < list.size(); ++i) {
          for (const auto& k : matrices(list[i].detach() + t * directions[i], batched)) all.push_back(k);
        }
        return expected(kind, all, 2);
      };
      const auto value = stiefel::penalty(kind, weights, options(batched));
      EXPECT_NEAR(value.item<double>(), along(0), 1e-11 * along(0));
      const auto gradients = torch::autograd::grad({value}, weights);
      double slope = 0;
      for (size_t i = 0; i < weights.size(); ++i) slope += scalar_product(gradients[i], directions[i]);
      const double h = 1e-5;
      EXPECT_NEAR(slope, (along(h) - along(-h)) / (2 * h), 1e-5 * std::abs(slope));
    }
  }
}

TEST(Penalties, ThreadsDoNotChangeTheResult) {
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < 40; ++i) weights.push_back(torch::randn({32, 8, 3, 3}).requires_grad_(true));
  weights.push_back(torch::randn({500, 9, 33}).transpose(0, 1).requires_grad_(true));
  const int before = at::get_num_threads();
  for (const auto kind : kKinds) {
    at::set_num_threads(1);
    const auto alone = stiefel::penalty(kind, weights, options());
    const auto mine = torch::autograd::grad({alone}, weights);
    at::set_num_threads(3);
    const auto shared = stiefel::penalty(kind, weights, options());
    const auto theirs = torch::autograd::grad({shared}, weights);
    EXPECT_NEAR(shared.item<double>(), alone.item<double>(), 1e-5 * alone.item<double>());
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_FALSE(theirs[i].requires_grad());
      EXPECT_LT(relative(theirs[i], mine[i]), 1e-4);
    }
  }
  at::set_num_threads(before);
}

TEST(Penalties, LargeMatricesAgreeWithTheDefinition) {
  // Large enough for the panels of the Gram matrix.
  const auto weight = (torch::randn({300, 600}, at::kFloat) * 0.05).requires_grad_(true);
  const auto k = weight.detach().to(at::kDouble);
  const auto value = stiefel::so_penalty(weight);
  EXPECT_EQ(value.scalar_type(), at::kFloat);
  EXPECT_NEAR(value.item<double>(), squares(gap(k)), 1e-5 * squares(gap(k)));
  EXPECT_LT(relative(gradient_of(value, weight).to(at::kDouble), 4 * gap(k).mm(k)), 1e-5);
  const double sigma = stiefel::srip_penalty(weight, options()).item<double>();
  EXPECT_NEAR(sigma, power_iteration(gap(k), starts(1, 300, at::kFloat)[0].to(at::kDouble), 2), 1e-4);
}

TEST(Penalties, ScaleThroughALossOfTheUser) {
  const auto weight = torch::randn({3, 2, 2}, at::kDouble).requires_grad_(true);
  for (const auto kind : kKinds) {
    const auto alone = gradient_of(stiefel::penalty(kind, {weight}, options()), weight);
    const auto loss = weight.sum() + 0.25 * stiefel::penalty(kind, {weight}, options());
    EXPECT_LT(relative(gradient_of(loss, weight), 1 + 0.25 * alone), 1e-14);
  }
}

TEST(Penalties, TakeAWeightThatOccursTwice) {
  const auto weight = torch::randn({3, 4}, at::kDouble).requires_grad_(true);
  const auto twice = gradient_of(stiefel::penalty(Penalty::kSo, {weight, weight}), weight);
  EXPECT_LT(relative(twice, 2 * gradient_of(stiefel::so_penalty(weight), weight)), 1e-14);
}

TEST(Penalties, LeaveOutWeightsWithoutAGradient) {
  std::vector<Tensor> weights = {torch::randn({3, 4}, at::kDouble), torch::randn({3, 4}, at::kDouble),
                                 torch::randn({2, 5}, at::kDouble)};
  weights[1].requires_grad_(true);
  for (const auto kind : kKinds) {
    weights[1].mutable_grad() = Tensor();
    const auto value = stiefel::penalty(kind, weights, options());
    value.backward();
    EXPECT_TRUE(weights[1].grad().defined());
    EXPECT_FALSE(weights[0].grad().defined());
    EXPECT_FALSE(weights[2].grad().defined());
    EXPECT_FALSE(stiefel::penalty(kind, {weights[0]}, options()).requires_grad());
    const torch::NoGradGuard no_grad;
    const auto quiet = stiefel::penalty(kind, weights, options());
    EXPECT_FALSE(quiet.requires_grad());
    EXPECT_EQ(quiet.item<double>(), value.item<double>());
  }
}

TEST(Penalties, KeepTheLayoutOfTheWeight) {
  const auto weight =
      torch::randn({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
  for (const auto kind : kKinds) {
    const auto gradient = gradient_of(stiefel::penalty(kind, {weight}, options()), weight);
    EXPECT_EQ(gradient.strides(), weight.strides());
  }
}

TEST(Penalties, ComputeHalfPrecisionInFloat) {
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    auto weight = (torch::randn({8, 40}) * 0.1).to(type).requires_grad_(true);
    auto other = torch::randn({8, 40}).to(type).requires_grad_(true);
    auto wide = weight.detach().to(at::kFloat).requires_grad_(true);
    for (const auto kind : kKinds) {
      const auto value = stiefel::penalty(kind, {weight}, options());
      const auto exact = stiefel::penalty(kind, {wide}, options());
      EXPECT_EQ(value.scalar_type(), at::kFloat);
      EXPECT_EQ(value.item<float>(), exact.item<float>());
      const auto gradient = gradient_of(value, weight);
      EXPECT_EQ(gradient.scalar_type(), type);
      EXPECT_TRUE(gradient.equal(gradient_of(exact, wide).to(type)));
      // In a stack too.
      const auto both =
          torch::autograd::grad({stiefel::penalty(kind, {weight, other}, options())}, {weight, other});
      EXPECT_EQ(both[0].scalar_type(), type);
      EXPECT_EQ(both[1].scalar_type(), type);
    }
  }
}

TEST(Penalties, OfMixedTypesComeInTheWidest) {
  const auto single = torch::randn({3, 4});
  const auto complex = torch::randn({3, 4}, at::kComplexDouble);
  const auto sum = stiefel::penalty(Penalty::kSrip, {single, complex}, options());
  EXPECT_EQ(sum.scalar_type(), at::kDouble);
  auto generator = at::detail::createCPUGenerator(kSeed);
  const auto first = power_iteration(gap(single), torch::randn({3, 1}, generator, at::kFloat), 2);
  const auto second = power_iteration(gap(complex), torch::randn({3, 1}, generator, at::kComplexDouble), 2);
  EXPECT_NEAR(sum.item<double>(), first + second, 1e-5 * sum.item<double>());
}

TEST(Penalties, SripRepeatsWithAGenerator) {
  const auto weight = torch::randn({5, 9}, at::kDouble);
  const double first = stiefel::srip_penalty(weight, options()).item<double>();
  EXPECT_EQ(stiefel::srip_penalty(weight, options()).item<double>(), first);
  EXPECT_NE(stiefel::srip_penalty(weight, options(false, 2, kSeed + 1)).item<double>(), first);
  // A generator moves on from call to call, and so does LibTorch's own.
  const auto shared = options();
  EXPECT_EQ(stiefel::srip_penalty(weight, shared).item<double>(), first);
  EXPECT_NE(stiefel::srip_penalty(weight, shared).item<double>(), first);
  EXPECT_NE(stiefel::srip_penalty(weight).item<double>(), stiefel::srip_penalty(weight).item<double>());
}

TEST(Penalties, SgdOnSoAloneReachesTheManifold) {
  for (const auto type : kTypes) {
    auto weight = (torch::randn({6, 3, 2, 2}, type) * 0.3).requires_grad_(true);
    torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.05));
    EXPECT_GT(support::defect(weight), 0.1);
    for (int64_t i = 0; i < 400; ++i) {
      optimizer.zero_grad();
      stiefel::so_penalty(weight).backward();
      optimizer.step();
    }
    EXPECT_LT(support::defect(weight), 1e-12);
  }
}

TEST(Penalties, NoticeAWeightThatChangedBeforeBackward) {
  auto weight = torch::randn({3, 4}, at::kDouble).requires_grad_(true);
  const auto other = torch::randn({3, 4}, at::kDouble);
  const auto alone = stiefel::so_penalty(weight);
  const auto stacked = stiefel::penalty(Penalty::kSo, {other, weight});
  {
    const torch::NoGradGuard no_grad;
    weight.mul_(2);
  }
  EXPECT_ERROR(alone.backward(), "modified by an inplace operation");
  EXPECT_ERROR(stacked.backward(), "modified by an inplace operation");
}

TEST(Penalties, HaveNoSecondDerivative) {
  auto weight = torch::randn({3, 4}, at::kDouble).requires_grad_(true);
  EXPECT_ERROR(torch::autograd::grad({stiefel::so_penalty(weight)}, {weight}, {}, true, true),
               "no second derivative");
}

TEST(Penalties, NamesGoBothWays) {
  for (const auto kind : kKinds) EXPECT_EQ(stiefel::penalty_from_string(to_string(kind)), kind);
  EXPECT_EQ(to_string(Penalty::kSo), "so");
  EXPECT_EQ(to_string(Penalty::kDso), "dso");
  EXPECT_EQ(to_string(Penalty::kSrip), "srip");
  EXPECT_ERROR(stiefel::penalty_from_string("l2"), "'l2'; choose so, dso or srip");
}

TEST(Penalties, BadInputIsNamed) {
  const auto good = torch::randn({3, 4});
  EXPECT_ERROR(stiefel::so_penalty(torch::ones({3, 4}, at::kLong)), "got Long");
  EXPECT_ERROR(stiefel::so_penalty(torch::ones({3})), "two or more dimensions; got the shape [3]");
  EXPECT_ERROR(stiefel::dso_penalty(torch::ones({0, 3})), "no elements");
  EXPECT_ERROR(stiefel::so_penalty(Tensor()), "undefined");
  EXPECT_ERROR(stiefel::so_penalty(torch::eye(3).to_sparse()), "dense weights");
  EXPECT_ERROR(stiefel::penalty(Penalty::kSo, {}), "the list is empty");
  EXPECT_ERROR(stiefel::penalty(Penalty::kSo, {good, torch::ones({3}, at::kBool)}), "got Bool");
  EXPECT_ERROR(stiefel::srip_penalty(good, options(false, 0)), "rounds must lie in [1, 1000]; got 0");
  EXPECT_ERROR(stiefel::srip_penalty(good, options(false, -2)), "got -2");
}

TEST(Penalties, ValuesThatAreNotFiniteShow) {
  auto weight = torch::randn({3, 4});
  weight[0][0] = std::numeric_limits<float>::quiet_NaN();
  for (const auto kind : kKinds) {
    EXPECT_TRUE(std::isnan(stiefel::penalty(kind, {weight}, options()).item<float>()));
  }
}

}  // namespace penalties_test
