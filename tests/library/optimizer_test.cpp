#include "tests/support.h"

#include <fstream>

// The two optimisers as torch::optim::Optimizers: groups, gradients, types, schedulers, archives.

namespace optimizer_test {

using at::Tensor;
using stiefel::CayleyAdam;
using stiefel::CayleyAdamOptions;
using stiefel::CayleySGD;
using stiefel::CayleySGDOptions;
using stiefel::Manifold;
using support::copy_of;
using support::distance;
using support::point;
using support::randomize_gradients;
using support::set_gradient;

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

TEST(Euclidean, GroupsEqualTorchSGD) {
  struct Case {
    double momentum, dampening, decay;
    bool nesterov;
  };
  for (const auto& c :
       {Case{0, 0, 0, false}, {0.9, 0, 0, false}, {0.9, 0.3, 1e-2, false}, {0.9, 0, 1e-2, true}}) {
    std::vector<Tensor> mine{torch::randn({5, 7}, at::kDouble).requires_grad_(),
                             torch::randn({3}, at::kDouble).requires_grad_()};
    std::vector<Tensor> theirs{copy_of(mine[0]), copy_of(mine[1])};
    CayleySGD ours(mine, CayleySGDOptions(0.1)
                             .manifold(Manifold::kEuclidean)
                             .momentum(c.momentum)
                             .dampening(c.dampening)
                             .weight_decay(c.decay)
                             .nesterov(c.nesterov));
    torch::optim::SGD reference(theirs, torch::optim::SGDOptions(0.1)
                                            .momentum(c.momentum)
                                            .dampening(c.dampening)
                                            .weight_decay(c.decay)
                                            .nesterov(c.nesterov));
    for (int step = 0; step < 20; ++step) {
      randomize_gradients(mine);
      for (size_t i = 0; i < mine.size(); ++i) set_gradient(theirs[i], mine[i].grad());
      ours.step();
      reference.step();
      for (size_t i = 0; i < mine.size(); ++i) ASSERT_TRUE(torch::equal(mine[i], theirs[i])) << step;
    }
  }
}

TEST(Euclidean, GroupsEqualTorchAdamAndAdamW) {
  for (const double decay : {0.0, 1e-2}) {
    for (const bool decoupled : {false, true}) {
      std::vector<Tensor> mine{torch::randn({5, 7}, at::kDouble).requires_grad_()};
      std::vector<Tensor> theirs{copy_of(mine[0])};
      CayleyAdam ours(mine, CayleyAdamOptions(0.01)
                                .manifold(Manifold::kEuclidean)
                                .betas({0.9, 0.999})
                                .weight_decay(decay)
                                .decoupled_weight_decay(decoupled));
      std::unique_ptr<torch::optim::Optimizer> reference;
      if (decoupled) {
        reference = std::make_unique<torch::optim::AdamW>(
            theirs, torch::optim::AdamWOptions(0.01).betas({0.9, 0.999}).weight_decay(decay));
      } else {
        reference = std::make_unique<torch::optim::Adam>(
            theirs, torch::optim::AdamOptions(0.01).betas({0.9, 0.999}).weight_decay(decay));
      }
      for (int step = 0; step < 20; ++step) {
        randomize_gradients(mine);
        set_gradient(theirs[0], mine[0].grad());
        ours.step();
        reference->step();
        ASSERT_LT(distance(mine[0], theirs[0]), 1e-15) << step;
      }
    }
  }
}

TEST(Euclidean, ComplexAdamIsAdamOnTheRealView) {
  std::vector<Tensor> mine{torch::randn({5, 7}, at::kComplexDouble).requires_grad_()};
  std::vector<Tensor> theirs{at::view_as_real(mine[0].detach()).clone().requires_grad_()};
  CayleyAdam ours(mine, CayleyAdamOptions(0.01).manifold(Manifold::kEuclidean).betas({0.9, 0.999}));
  torch::optim::Adam reference(theirs, torch::optim::AdamOptions(0.01));
  for (int step = 0; step < 20; ++step) {
    randomize_gradients(mine);
    set_gradient(theirs[0], at::view_as_real(mine[0].grad()));
    ours.step();
    reference.step();
  }
  EXPECT_LT(distance(at::view_as_real(mine[0].detach()), theirs[0]), 1e-15);
  support::load(ours, support::save(ours));
}

TEST(Groups, BothKindsAndTheirOwnOptions) {
  const auto a = point({4, 9});
  const auto b = point({4, 9});
  const auto c = torch::ones({4, 9}, at::kDouble).requires_grad_();
  const auto start = copy_of(a);
  const auto free = CayleySGDOptions(0.5).manifold(Manifold::kEuclidean).weight_decay(0.1);
  CayleySGD optimizer(Groups{{{a}}, {{b}, CayleySGDOptions(0).clone()}, {{c}, free.clone()}},
                      CayleySGDOptions(0.2).momentum(0.9));
  const auto still = copy_of(b);
  for (const auto& t : {a, b, c}) set_gradient(t, torch::zeros_like(t));
  set_gradient(a, torch::randn_like(a));
  set_gradient(b, torch::randn_like(b));
  optimizer.step();
  EXPECT_GT(distance(a, start), 1e-3);
  EXPECT_LT(distance(b, still), 1e-15) << "its rate is 0";
  EXPECT_NEAR(c[0][0].item<double>(), 1 - 0.5 * 0.1, 1e-15) << "Euclidean weight decay acts";
}

TEST(Groups, EuclideanDefaultsStayOffTheManifold) {
  const auto a = point({4, 9});
  const auto c = torch::ones({4}, at::kDouble).requires_grad_();
  const auto free = CayleySGDOptions(0.5).manifold(Manifold::kEuclidean);
  CayleySGD optimizer(Groups{{{a}}, {{c}, free.clone()}},
                      CayleySGDOptions(0.2).momentum(0.9).nesterov(true).weight_decay(5e-4));
  const auto& inherited = static_cast<CayleySGDOptions&>(optimizer.param_groups()[0].options());
  EXPECT_EQ(inherited.weight_decay(), 0);
  EXPECT_FALSE(inherited.nesterov());
  EXPECT_EQ(inherited.momentum(), 0.9);
}

TEST(Groups, AGroupAddedLaterIsChecked) {
  auto off = torch::randn({4, 9}, at::kDouble).requires_grad_();
  CayleySGD optimizer({point({4, 9})}, CayleySGDOptions(0.2));
  optimizer.add_param_group({{off}});
  EXPECT_LT(support::defect(off), 1e-14);
  auto behind = torch::randn({4, 9}, at::kDouble).requires_grad_();
  static_cast<torch::optim::Optimizer&>(optimizer).add_param_group({{behind}});
  optimizer.step();
  EXPECT_LT(support::defect(behind), 1e-14);
}

TEST(Momentum, TakesEffect) {
  for (const bool adam : {false, true}) {
    const auto a = point({4, 9});
    const auto b = copy_of(a);
    std::unique_ptr<torch::optim::Optimizer> with;
    std::unique_ptr<torch::optim::Optimizer> without;
    if (adam) {
      with = std::make_unique<CayleyAdam>(std::vector<Tensor>{a}, CayleyAdamOptions(0.1));
      without = std::make_unique<CayleyAdam>(std::vector<Tensor>{b}, CayleyAdamOptions(0.1).betas({0, 0.99}));
    } else {
      with = std::make_unique<CayleySGD>(std::vector<Tensor>{a}, CayleySGDOptions(0.1).momentum(0.9));
      without = std::make_unique<CayleySGD>(std::vector<Tensor>{b}, CayleySGDOptions(0.1));
    }
    for (int step = 0; step < 3; ++step) {
      randomize_gradients({a});
      set_gradient(b, a.grad());
      with->step();
      without->step();
    }
    EXPECT_GT(distance(a, b), 1e-3);
  }
}

/// The same trajectory from every memory layout, and the gradient's layout free of it.
TEST(Layout, DoesNotChangeTheResult) {
  const auto start = point({6, 3, 4, 4});
  const auto run = [&](const Tensor& weight, at::MemoryFormat gradient_format) {
    torch::manual_seed(3);
    weight.requires_grad_();
    CayleySGD optimizer({weight}, CayleySGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 5; ++step) {
      weight.mutable_grad() = torch::randn({6, 3, 4, 4}, at::kDouble).contiguous(gradient_format);
      optimizer.step();
    }
    return weight.detach().contiguous();
  };
  const auto plain = at::MemoryFormat::Contiguous;
  const auto last = at::MemoryFormat::ChannelsLast;
  const auto expected = run(start.detach().clone(), plain);
  const auto odd = torch::zeros({6, 3, 4, 8}, at::kDouble).slice(3, 0, 4).copy_(start.detach()).detach();
  const auto swapped = start.detach().permute({2, 0, 3, 1}).contiguous().permute({1, 3, 0, 2});
  EXPECT_LT(distance(run(start.detach().clone(), last), expected), 1e-14);
  EXPECT_LT(distance(run(start.detach().contiguous(last).clone(), plain), expected), 1e-14);
  EXPECT_LT(distance(run(start.detach().contiguous(last).clone(), last), expected), 1e-14);
  EXPECT_LT(distance(run(odd, plain), expected), 1e-14);
  EXPECT_LT(distance(run(swapped, plain), expected), 1e-14);
}

TEST(Layout, TallIsTheTransposeOfWide) {
  const auto wide = point({5, 12}, at::kComplexDouble);
  const auto tall = wide.detach().t().contiguous().requires_grad_();
  CayleyAdam first({wide}, CayleyAdamOptions(0.1));
  CayleyAdam second({tall}, CayleyAdamOptions(0.1));
  for (int step = 0; step < 5; ++step) {
    randomize_gradients({wide});
    set_gradient(tall, wide.grad().t().contiguous());
    first.step();
    second.step();
  }
  EXPECT_LT(distance(wide.t(), tall), 1e-14);
}

TEST(Layout, ALazilyConjugatedParameterMovesToo) {
  const auto plain = point({5, 12}, at::kComplexDouble);
  const auto lazy = plain.detach().conj().resolve_conj().conj().requires_grad_();
  ASSERT_TRUE(lazy.is_conj());
  CayleySGD first({plain}, CayleySGDOptions(0.1).momentum(0.9));
  CayleySGD second({lazy}, CayleySGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    randomize_gradients({plain});
    lazy.mutable_grad() = plain.grad().conj().resolve_conj().conj();
    first.step();
    second.step();
  }
  EXPECT_LT(distance(plain, lazy), 1e-14);
}

TEST(Batching, StepsOfAStackAreStepsOfItsMatrices) {
  for (const bool adam : {false, true}) {
    for (const auto& shape : {std::vector<int64_t>{2, 3, 5, 8}, {2, 3, 8, 5}, {2, 3, 6, 6}}) {
      const auto stack = point(shape, at::kDouble, true);
      std::vector<Tensor> single;
      for (int i = 0; i < 6; ++i) single.push_back(stack.detach()[i / 3][i % 3].clone().requires_grad_());
      const std::vector<Tensor> alone{stack};
      std::unique_ptr<torch::optim::Optimizer> together;
      std::unique_ptr<torch::optim::Optimizer> apart;
      if (adam) {
        together = std::make_unique<CayleyAdam>(alone, CayleyAdamOptions(0.1).batched(true));
        apart = std::make_unique<CayleyAdam>(single, CayleyAdamOptions(0.1));
      } else {
        together = std::make_unique<CayleySGD>(alone, CayleySGDOptions(0.1).momentum(0.9).batched(true));
        apart = std::make_unique<CayleySGD>(single, CayleySGDOptions(0.1).momentum(0.9));
      }
      for (int step = 0; step < 5; ++step) {
        randomize_gradients({stack});
        for (int i = 0; i < 6; ++i) set_gradient(single[i], stack.grad()[i / 3][i % 3]);
        together->step();
        apart->step();
      }
      for (int i = 0; i < 6; ++i) EXPECT_LT(distance(stack[i / 3][i % 3], single[i]), 1e-14);
    }
  }
}

TEST(Batching, ALargeStackIsCutAndAgrees) {
  // 300 matrices are several slices; stacked the other way round they cannot be merged without a copy.
  const auto stack = point({3, 100, 16, 64}, at::kDouble, true).detach();
  const auto across = stack.transpose(0, 1).contiguous().transpose(0, 1);
  const auto gradient = torch::randn_like(stack) * 0.01;
  const auto rate = torch::full({}, 0.1, at::kDouble);
  std::vector<Tensor> results;
  for (const auto& start : {stack, across}) {
    auto x = start.clone(at::MemoryFormat::Preserve);
    auto m = torch::zeros_like(x);
    auto v = torch::zeros({3, 100}, at::kDouble);
    auto k = torch::zeros({3, 100}, at::kDouble);
    const auto skipped = torch::zeros({}, at::kLong);
    auto spoilt = gradient.clone();
    spoilt[1][7].fill_(NAN);
    for (int step = 0; step < 3; ++step) {
      stiefel::cayley_adam_({x}, {m}, {v}, {k}, {spoilt}, skipped, rate, 0.9, 0.99, {}, /*batched=*/true);
    }
    EXPECT_EQ(skipped.item<int64_t>(), 3);
    EXPECT_EQ(k.sum().item<double>(), 3 * 299);
    EXPECT_TRUE(torch::equal(x[1][7], stack[1][7]));
    results.push_back(x);
  }
  const auto alone = stack[2][50].clone();
  auto m = torch::zeros_like(alone);
  auto v = torch::zeros({}, at::kDouble);
  auto k = torch::zeros({}, at::kDouble);
  for (int step = 0; step < 3; ++step) {
    stiefel::cayley_adam_({alone}, {m}, {v}, {k}, {gradient[2][50]}, torch::zeros({}, at::kLong), rate, 0.9,
                          0.99);
  }
  for (const auto& x : results) EXPECT_LT(distance(x[2][50], alone), 1e-14);
}

TEST(Batching, ThousandsOfSmallMatricesAgreeWithOneAlone) {
  std::vector<Tensor> many;
  for (int i = 0; i < 2000; ++i) many.push_back(point({4, 8}, at::kFloat));
  const auto alone = copy_of(many[1234]);
  CayleySGD all(many, CayleySGDOptions(0.1).momentum(0.9));
  CayleySGD one({alone}, CayleySGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 3; ++step) {
    randomize_gradients(many);
    set_gradient(alone, many[1234].grad());
    all.step();
    one.step();
  }
  EXPECT_LT(distance(alone, many[1234]), 1e-6);
  for (const auto& weight : many) ASSERT_LT(support::defect(weight), 1e-5);
}

TEST(Gradients, AreNotChangedAndUndefinedOnesAreSkipped) {
  const auto a = point({4, 9});
  const auto b = point({4, 9});
  const auto still = copy_of(b);
  CayleySGD optimizer({a, b}, CayleySGDOptions(0.1).momentum(0.9));
  randomize_gradients({a});
  const auto gradient = a.grad().clone();
  optimizer.step();
  EXPECT_TRUE(torch::equal(a.grad(), gradient));
  EXPECT_TRUE(torch::equal(b, still));
  optimizer.zero_grad();
  optimizer.step();
}

TEST(Gradients, ANonFiniteOneLeavesItsMatrixAlone) {
  for (const bool adam : {false, true}) {
    for (const double bad : {std::nan(""), HUGE_VAL, 1e300}) {
      for (const int64_t n : {9, 4}) {
        for (const bool polish : {true, false}) {
          const auto a = point({4, n});
          const auto b = point({4, n});
          const auto alone = copy_of(b);
          const std::vector<Tensor> both{a, b};
          const std::vector<Tensor> only{alone};
          std::unique_ptr<stiefel::ManifoldOptimizer> optimizer;
          std::unique_ptr<stiefel::ManifoldOptimizer> reference;
          if (adam) {
            optimizer = std::make_unique<CayleyAdam>(both, CayleyAdamOptions(0.1).polish(polish));
            reference = std::make_unique<CayleyAdam>(only, CayleyAdamOptions(0.1).polish(polish));
          } else {
            const auto options = CayleySGDOptions(0.1).momentum(0.9).polish(polish);
            optimizer = std::make_unique<CayleySGD>(both, options);
            reference = std::make_unique<CayleySGD>(only, options);
          }
          const auto step = [&](bool spoil) {
            randomize_gradients({a, b});
            set_gradient(alone, b.grad());
            if (spoil) a.mutable_grad()[1][2] = bad;
            optimizer->step();
            reference->step();
          };
          step(false);
          const auto before = copy_of(a);
          const auto state = support::save(*optimizer);
          step(true);
          EXPECT_TRUE(torch::equal(a, before)) << "a matrix moved along " << bad;
          EXPECT_EQ(optimizer->skipped_steps(), 1);
          EXPECT_LT(distance(b, alone), 1e-14) << "its neighbour goes on";
          step(false);
          EXPECT_FALSE(torch::equal(a, before)) << "and it moves again afterwards";
          EXPECT_TRUE(a.isfinite().all().item<bool>());
          EXPECT_EQ(optimizer->skipped_steps(), 1);
        }
      }
    }
  }
}

TEST(Gradients, ASkippedMatrixKeepsItsState) {
  // Skipping a bad step and going on equals never having had it.
  const auto a = point({4, 9});
  const auto b = copy_of(a);
  CayleyAdam with({a}, CayleyAdamOptions(0.1));
  CayleyAdam without({b}, CayleyAdamOptions(0.1));
  for (int step = 0; step < 4; ++step) {
    randomize_gradients({a});
    set_gradient(b, a.grad());
    with.step();
    without.step();
    set_gradient(a, torch::full_like(a, NAN));
    with.step();
  }
  EXPECT_TRUE(torch::equal(a, b));
  EXPECT_EQ(with.skipped_steps(), 4);
}

TEST(Types, HalfAndBfloat16KeepAMaster) {
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    auto weight = torch::empty({8, 20}, at::kFloat);
    stiefel::init::haar_(weight);
    const auto exact = weight.clone().requires_grad_();
    const auto rounded = weight.to(type).requires_grad_();
    CayleySGD low({rounded}, CayleySGDOptions(0.05).momentum(0.9));
    CayleySGD high({exact}, CayleySGDOptions(0.05).momentum(0.9));
    for (int step = 0; step < 200; ++step) {
      set_gradient(rounded, (torch::randn({8, 20}) * 0.1).to(type));
      set_gradient(exact, rounded.grad().to(at::kFloat));
      low.step();
      high.step();
    }
    // The point is followed in float32: steps far below the type's resolution are not lost.
    EXPECT_LT(distance(rounded.to(at::kFloat), exact), type == at::kHalf ? 2e-3 : 2e-2);
    EXPECT_EQ(rounded.scalar_type(), type);
    const auto& state = static_cast<const stiefel::ParamState&>(*low.state().begin()->second);
    EXPECT_LT(support::defect(state.master), 1e-5);
    EXPECT_TRUE(torch::equal(state.master.to(type), rounded));
  }
}

TEST(Rates, SchedulersOfTorchWork) {
  const auto a = point({4, 9});
  CayleySGD optimizer({a}, CayleySGDOptions(0.2));
  torch::optim::StepLR scheduler(optimizer, 1, 0.5);
  scheduler.step();
  scheduler.step();
  EXPECT_NEAR(optimizer.param_groups()[0].options().get_lr(), 0.1, 1e-15);
  const auto fast = copy_of(a);
  CayleySGD other({fast}, CayleySGDOptions(0.1));
  randomize_gradients({a});
  set_gradient(fast, a.grad());
  optimizer.step();
  other.step();
  EXPECT_TRUE(torch::equal(a, fast));
}

TEST(Closure, ReturnsTheLossAndHasGradients) {
  const auto a = point({4, 9});
  CayleySGD optimizer({a}, CayleySGDOptions(0.05).momentum(0.5));
  const auto target = point({4, 9}).detach();
  const auto closure = [&] {
    optimizer.zero_grad();
    auto loss = (a - target).square().sum();
    loss.backward();
    return loss;
  };
  const double first = optimizer.step(closure).item<double>();
  double last = first;
  for (int step = 0; step < 50; ++step) last = optimizer.step(closure).item<double>();
  EXPECT_LT(last, 0.5 * first);
}

TEST(Start, ANearPointIsLeftBitForBit) {
  auto near = point({4, 9}, at::kFloat);
  {
    torch::NoGradGuard no_grad;
    near.mul_(1 + 1e-4);
  }
  const auto before = copy_of(near);
  CayleySGD optimizer({near}, CayleySGDOptions(0.1));
  EXPECT_TRUE(torch::equal(near, before));
  set_gradient(near, torch::zeros_like(near));
  optimizer.step();
  EXPECT_LT(support::defect(near), 1e-6) << "the first step draws it in";
}

TEST(Threads, AgreeToRounding) {
  const auto run = [](int threads) {
    at::set_num_threads(threads);
    torch::manual_seed(5);
    std::vector<Tensor> weights{point({256, 600}, at::kFloat), point({128, 128}, at::kFloat)};
    for (int i = 0; i < 100; ++i) weights.push_back(point({8, 16}, at::kFloat));
    CayleyAdam optimizer(weights, CayleyAdamOptions(0.1));
    for (int step = 0; step < 5; ++step) {
      randomize_gradients(weights);
      optimizer.step();
    }
    return weights;
  };
  const auto one = run(1);
  const auto two = run(2);
  const auto again = run(2);
  at::set_num_threads(1);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_LT(distance(one[i], two[i]), 1e-5);
    EXPECT_TRUE(torch::equal(two[i], again[i])) << "one thread count repeats bit for bit";
  }
}

TEST(Memory, DoesNotGrow) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer keeps freed memory; it finds leaks itself";
#endif
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    long size = 0;
    long pages = 0;
    file >> size >> pages;
    return pages * 4096;
  };
  std::vector<Tensor> weights{point({64, 576}, at::kFloat), point({64, 576}, at::kFloat),
                              point({32, 32}, at::kFloat)};
  CayleySGD optimizer(weights, CayleySGDOptions(0.1).momentum(0.9));
  randomize_gradients(weights);
  for (int step = 0; step < 200; ++step) optimizer.step();
  const auto before = resident();
  for (int step = 0; step < 1000; ++step) optimizer.step();
  EXPECT_LT(resident() - before, 4 << 20);
}

}  // namespace optimizer_test
