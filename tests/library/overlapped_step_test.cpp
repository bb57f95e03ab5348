#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>

#include "tests/support.h"
#include "tests/thread_ranks.h"

// Steps that are taken in parts while the backward pass goes on, against the same steps after it: the same
// bits for every optimiser, whatever arrives when, and errors where there cannot be.

namespace overlapped_step_test {

using at::Tensor;
using stiefel::ManifoldOptimizer;
using stiefel::OverlapOptions;
using stiefel::OverlappedStep;
using torch::optim::OptimizerParamGroup;

/// Layers of many shapes: several alike, a square, tall and wide ones, one that is large for a batch, a
/// stack.
struct Net {
  std::vector<Tensor> weights;
  std::vector<Tensor> stacks;
  std::vector<Tensor> biases;

  explicit Net(at::ScalarType type = at::kDouble) {
    for (const auto& [out, in] : std::initializer_list<std::pair<int64_t, int64_t>>{
             {32, 40}, {32, 32}, {32, 32}, {256, 32}, {300, 256}, {32, 300}, {24, 32}, {24, 24}, {10, 24}}) {
      weights.push_back(support::point({out, in}, type));
      biases.push_back(torch::zeros({out}, type).requires_grad_());
    }
    stacks.push_back(support::point({2, 5, 10}, type, /*batched=*/true));
  }

  Net copy() const {
    Net other = *this;
    for (auto* list : {&other.weights, &other.stacks, &other.biases}) {
      for (auto& t : *list) t = support::copy_of(t);
    }
    return other;
  }

  std::vector<Tensor> all() const {
    auto list = weights;
    list.insert(list.end(), stacks.begin(), stacks.end());
    list.insert(list.end(), biases.begin(), biases.end());
    return list;
  }

  /// Layer by layer; `between` is called with the layer's number and output, and returns what goes on.
  Tensor loss(Tensor x, const std::function<Tensor(size_t, Tensor)>& between = nullptr) const {
    for (size_t i = 0; i < weights.size(); ++i) {
      x = torch::tanh(torch::matmul(x, weights[i].t()) + biases[i]);
      if (between) x = between(i, x);
    }
    return torch::matmul(stacks[0], x.t()).square().sum() + x.sum();
  }
};

Tensor input(at::ScalarType type = at::kDouble) { return torch::randn({6, 40}, type); }

using Maker = std::function<std::unique_ptr<ManifoldOptimizer>(const Net&)>;

/// Two groups on the manifold, a stack, and a Euclidean group.
template <class Optimizer, class Options>
Maker maker(const Options& options) {
  return [options](const Net& net) {
    const auto half = static_cast<std::ptrdiff_t>(net.weights.size() / 2);
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>(net.weights.begin(), net.weights.begin() + half));
    groups.emplace_back(net.biases, Options(options).manifold(stiefel::Manifold::kEuclidean).clone());
    groups.emplace_back(std::vector<Tensor>(net.weights.begin() + half, net.weights.end()),
                        Options(options).lr(options.lr() / 3).clone());
    groups.emplace_back(net.stacks, Options(options).batched(true).clone());
    return std::make_unique<Optimizer>(groups, options);
  };
}

Maker cayley_sgd() { return maker<stiefel::CayleySGD>(stiefel::CayleySGDOptions(0.1).momentum(0.9)); }

struct Named {
  const char* name;
  Maker make;
};

std::vector<Named> makers() {
  using namespace stiefel;
  return {
      {"cayley-sgd", cayley_sgd()},
      {"cayley-sgd to the letter", maker<CayleySGD>(CayleySGDOptions(0.05).momentum(0.5).polish(false))},
      {"cayley-adam", maker<CayleyAdam>(CayleyAdamOptions(0.1))},
      {"cayley-muon", maker<CayleyMuon>(CayleyMuonOptions(0.02))},
      {"qr", maker<RetractionSGD<Qr>>(RetractionSGDOptions<Qr>(0.1).momentum(0.9))},
      {"polar-ns",
       maker<RetractionSGD<Polar>>(RetractionSGDOptions<Polar>(0.05).retraction({Polar::By::kNewtonSchulz}))},
      {"landing", maker<RetractionSGD<Landing>>(RetractionSGDOptions<Landing>(0.05))},
  };
}

void expect_equal(const Net& a, const Net& b, const std::string& what) {
  const auto left = a.all(), right = b.all();
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_TRUE(left[i].equal(right[i])) << what << ", parameter " << i << " of shape " << left[i].sizes();
  }
}

/// The same training twice, once by plain steps. `passes` computes gradients, all but for zero_grad().
struct Twins {
  Net plain, overlapped;
  std::unique_ptr<ManifoldOptimizer> plain_optimizer, optimizer;
  OverlappedStep step;

  explicit Twins(const Maker& make, const Net& net = Net(), OverlapOptions options = {})
      : plain(net.copy()),
        overlapped(net.copy()),
        plain_optimizer(make(plain)),
        optimizer(make(overlapped)),
        step(*optimizer, options) {}

  void take(const std::function<Tensor(const Net&)>& loss) {
    plain_optimizer->zero_grad();
    loss(plain).backward();
    plain_optimizer->step();
    optimizer->zero_grad();
    step.backward_and_step(loss(overlapped));
  }

  void expect_equal(const std::string& what) const {
    overlapped_step_test::expect_equal(overlapped, plain, what);
    EXPECT_EQ(optimizer->skipped_steps(), plain_optimizer->skipped_steps()) << what;
    EXPECT_EQ(support::save(*optimizer), support::save(*plain_optimizer)) << what << ": archives";
  }
};

size_t count(const std::vector<std::vector<Tensor>>& parts) {
  size_t total = 0;
  for (const auto& part : parts) total += part.size();
  return total;
}

TEST(OverlappedStep, EqualsThePlainStepBitForBit) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const auto type : {at::kDouble, at::kFloat}) {
      if (threads > 1 && type == at::kDouble) continue;
      for (const auto& [name, make] : makers()) {
        const auto what =
            std::string(name) + ", " + c10::toString(type) + ", threads " + std::to_string(threads);
        Twins twins(make, Net(type));
        for (int turn = 0; turn < 3; ++turn) {
          const auto x = input(type);
          twins.take([&](const Net& net) { return net.loss(x); });
          EXPECT_EQ(twins.step.stepped_behind(), turn == 0 ? 0 : 10) << what;
        }
        twins.expect_equal(what);
        EXPECT_GT(twins.step.parts().size(), 1u) << what;
      }
    }
  }
  at::set_num_threads(before);
}

TEST(OverlappedStep, PartsFollowTheBackwardPass) {
  for (const int64_t parts : {1, 2, 3, 4, 100}) {
    Twins twins(cayley_sgd(), Net(), OverlapOptions().parts(parts));
    EXPECT_TRUE(twins.step.parts().empty());
    for (int turn = 0; turn < 3; ++turn) {
      const auto x = input();
      twins.take([&](const Net& net) { return net.loss(x); });
    }
    twins.expect_equal("parts " + std::to_string(parts));
    const auto found = twins.step.parts();
    EXPECT_LE(found.size(), static_cast<size_t>(parts));
    EXPECT_EQ(count(found), 10u);
    EXPECT_EQ(found.size() > 1, parts > 1);
    const auto part_of = [&](const Tensor& weight) {
      for (size_t i = 0; i < found.size(); ++i) {
        for (const auto& t : found[i]) {
          if (t.is_same(weight)) return i;
        }
      }
      return found.size();
    };
    const auto& weights = twins.overlapped.weights;
    EXPECT_EQ(part_of(twins.overlapped.stacks[0]), 0u) << "the last layer's gradient comes first";
    EXPECT_LE(part_of(weights[4]), part_of(weights[3]));
    EXPECT_LE(part_of(weights[3]), part_of(weights[0]));
    EXPECT_EQ(part_of(weights[1]), part_of(weights[2])) << "small ones of one shape are computed together";
  }
}

TEST(OverlappedStep, WeightsMoveBehindTheBackwardPassAndTheOthersInFinish) {
  const Net net;
  const auto optimizer = cayley_sgd()(net);
  OverlappedStep step(*optimizer);
  for (int turn = 0; turn < 2; ++turn) {
    optimizer->zero_grad();
    std::vector<Tensor> start;
    for (const auto& t : net.all()) start.push_back(t.detach().clone());
    step.begin();
    std::vector<int64_t> stepped;  // behind each layer's gradient
    const auto loss = net.loss(input(), [&](size_t, Tensor x) {
      x.register_hook([&](Tensor) { stepped.push_back(step.stepped_behind()); });
      return x;
    });
    loss.backward();
    const auto now = net.all();
    for (size_t i = 0; i < now.size(); ++i) {
      const bool euclidean = i >= net.weights.size() + net.stacks.size();
      EXPECT_EQ(now[i].equal(start[i]), turn == 0 || euclidean) << turn << " " << i;
    }
    step.finish();
    for (size_t i = 0; i < now.size(); ++i) EXPECT_FALSE(now[i].equal(start[i])) << turn << " " << i;
    if (turn == 0) continue;
    EXPECT_EQ(stepped.front(), 0);
    EXPECT_GT(stepped.back(), 4) << "nearly all, when the first layer is reached";
  }
}

TEST(OverlappedStep, WeightsWithoutGradientsStayAndHaveNoState) {
  Twins twins(cayley_sgd());
  const auto without = [](const Net& net,
                          size_t skipped) {  // layers 1 and 2 are alike, and so are 7 and none
    auto x = torch::randn({6, 40}, at::kDouble);
    for (size_t i = 0; i < net.weights.size(); ++i) {
      if (i != skipped) x = torch::tanh(torch::matmul(x, net.weights[i].t()) + net.biases[i]);
    }
    return x.square().sum();  // without the stack
  };
  // The gradients that come change: the plain order while one is learnt again.
  const std::vector<size_t> skipped{2, 2, 2, 1, 1, 1, 7, 2, 99, 99, 2};
  const std::vector<int64_t> behind{0, 8, 8, -1, 8, 8, -1, -1, -1, 9, -1};
  for (size_t turn = 0; turn < skipped.size(); ++turn) {
    torch::manual_seed(static_cast<uint64_t>(turn));
    twins.plain_optimizer->zero_grad();
    without(twins.plain, skipped[turn]).backward();
    twins.plain_optimizer->step();
    torch::manual_seed(static_cast<uint64_t>(turn));
    for (const auto& parameter : twins.overlapped.all()) parameter.mutable_grad() = Tensor();
    twins.step.backward_and_step(without(twins.overlapped, skipped[turn]));
    for (const auto& parameter : twins.plain.all()) parameter.mutable_grad() = Tensor();
    if (behind[turn] >= 0) {
      EXPECT_EQ(twins.step.stepped_behind(), behind[turn]) << turn;
    }
    twins.expect_equal("turn " + std::to_string(turn));
  }
}

TEST(OverlappedStep, GradientsThatAreLeftFromAnotherPassCount) {
  // The second of two passes reaches other weights; zeroed gradients are gradients too.
  for (const bool keeps_zeros : {false, true}) {
    Twins twins(cayley_sgd());
    for (int turn = 0; turn < 6; ++turn) {
      const auto x = input();
      const auto first = [&](const Net& net) { return net.loss(x); };
      const auto second = [&](const Net& net) {
        auto y = torch::matmul(x, net.weights[0].t());
        return torch::matmul(y, net.weights[turn < 4 ? 1 : 2].t()).pow(3).sum();
      };
      for (auto* net : {&twins.plain, &twins.overlapped}) {
        for (const auto& parameter : net->all()) {
          if (!keeps_zeros) parameter.mutable_grad() = Tensor();
          if (keeps_zeros && parameter.grad().defined()) parameter.mutable_grad().zero_();
        }
      }
      if (turn != 3) first(twins.plain).backward();
      second(twins.plain).backward();
      twins.plain_optimizer->step();
      if (turn != 3) first(twins.overlapped).backward();
      twins.step.begin();
      second(twins.overlapped).backward();
      twins.step.finish();
      twins.expect_equal("turn " + std::to_string(turn));
    }
  }
}

TEST(OverlappedStep, AddsUpTheGradientsOfTwoPasses) {
  Twins twins(cayley_sgd());
  for (int turn = 0; turn < 4; ++turn) {
    const auto a = input(), b = input();
    twins.plain_optimizer->zero_grad();
    twins.plain.loss(a).backward();
    twins.plain.loss(b).backward();
    twins.plain_optimizer->step();
    twins.optimizer->zero_grad();
    twins.overlapped.loss(a).backward();
    const auto last = twins.overlapped.loss(b);
    twins.step.begin();
    last.backward();
    twins.step.finish();
    EXPECT_EQ(twins.step.stepped_behind(), turn == 0 ? 0 : 10);
    twins.expect_equal("turn " + std::to_string(turn));
  }
}

TEST(OverlappedStep, ASecondPassOverSteppedWeightsIsAnError) {
  Twins twins(cayley_sgd());
  const auto x = input();
  twins.take([&](const Net& net) { return net.loss(x); });
  twins.step.begin();
  twins.overlapped.loss(x).backward();
  EXPECT_ERROR(twins.overlapped.loss(x).backward(), "begin() before the last pass only");
  twins.step.cancel();
  // In the first step, which is a plain one, nothing has moved, and the gradients add up.
  Twins fresh(cayley_sgd());
  fresh.plain.loss(x).backward();
  fresh.plain.loss(x).backward();
  fresh.plain_optimizer->step();
  fresh.step.begin();
  fresh.overlapped.loss(x).backward();
  fresh.overlapped.loss(x).backward();
  fresh.step.finish();
  fresh.expect_equal("two passes at first");
}

TEST(OverlappedStep, GradientsThatAreNotFiniteAreCounted) {
  Twins twins(maker<stiefel::CayleyAdam>(stiefel::CayleyAdamOptions(0.1)));
  for (int turn = 0; turn < 5; ++turn) {
    const auto x = input();
    twins.take([&](const Net& net) {
      return net.loss(x, [&](size_t i, Tensor y) {
        // The gradients of layers 0 … 3 are not numbers.
        if (turn == 2 && i == 3) y.register_hook([](Tensor g) { return g * NAN; });
        return y;
      });
    });
  }
  // The biases are Euclidean, so from there on nothing is a number, in both alike.
  EXPECT_GE(twins.optimizer->skipped_steps(), 4);
  EXPECT_EQ(twins.optimizer->skipped_steps(), twins.plain_optimizer->skipped_steps());
  for (size_t i = 0; i < twins.plain.weights.size(); ++i) {
    EXPECT_TRUE(twins.overlapped.weights[i].equal(twins.plain.weights[i])) << i;
    EXPECT_LT(support::defect(twins.overlapped.weights[i]), 1e-12);
  }
}

struct Fails : torch::autograd::Function<Fails> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("the backward pass failed");
  }
};

TEST(OverlappedStep, ABackwardPassThatFailsLeavesNothingOpen) {
  Twins twins(cayley_sgd());
  const auto x = input();
  const auto good = [&](const Net& net) { return net.loss(x); };
  for (int turn = 0; turn < 2; ++turn) twins.take(good);
  for (const bool by_hand : {false, true}) {
    const auto start = twins.overlapped.copy();
    twins.optimizer->zero_grad();
    const auto bad =
        twins.overlapped.loss(x, [](size_t i, const Tensor& y) { return i == 2 ? Fails::apply(y) : y; });
    if (by_hand) {
      twins.step.begin();
      EXPECT_THROW(bad.backward(), std::runtime_error);  // and begin() comes next
    } else {
      EXPECT_THROW(twins.step.backward_and_step(bad), std::runtime_error);
    }
    EXPECT_FALSE(twins.overlapped.weights[8].equal(start.weights[8])) << "was stepped";
    for (const size_t i : {0, 1, 2}) EXPECT_TRUE(twins.overlapped.weights[i].equal(start.weights[i]));
    EXPECT_TRUE(twins.overlapped.biases[8].equal(start.biases[8]));
    // From here both go on from one place.
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < start.all().size(); ++i) {
      twins.overlapped.all()[i].copy_(twins.plain.all()[i]);
    }
    support::load(*twins.optimizer, support::save(*twins.plain_optimizer));
    const at::AutoGradMode with_grad(true);
    twins.take(good);
    EXPECT_EQ(twins.step.stepped_behind(), 10);
    twins.expect_equal("after a failure");
  }
  twins.optimizer->step();  // a plain one, which nothing forbids any more
}

TEST(OverlappedStep, AFailureInTheFirstPassIsForgotten) {
  Twins twins(cayley_sgd());
  const auto x = input();
  const auto bad =
      twins.overlapped.loss(x, [](size_t i, const Tensor& y) { return i == 2 ? Fails::apply(y) : y; });
  EXPECT_THROW(twins.step.backward_and_step(bad), std::runtime_error);
  EXPECT_TRUE(twins.step.parts().empty());
  for (int turn = 0; turn < 3; ++turn) twins.take([&](const Net& net) { return net.loss(x); });
  EXPECT_EQ(twins.step.stepped_behind(), 10);
  twins.expect_equal("after a failure");
}

TEST(OverlappedStep, AWeightThatIsReadLaterWithoutAGradientIsAutogradsError) {
  Twins twins(cayley_sgd());
  const auto x = input();
  const auto loss = [&](const Net& net) {
    // On the way back to the first layer this product reads the last layer's weight, as detach() shares it.
    const auto y = torch::matmul(x, net.weights[0].t()).narrow(1, 0, 24);
    const auto read = torch::matmul(y, net.weights[8].detach().t());
    return net.loss(x + read.sum());
  };
  twins.take(loss);
  EXPECT_ERROR(twins.step.backward_and_step(loss(twins.overlapped)), "modified by an inplace operation");
}

TEST(OverlappedStep, AWeightThatIsUsedTwiceIsSteppedOnce) {
  Twins twins(cayley_sgd());
  for (int turn = 0; turn < 4; ++turn) {
    const auto x = input();
    twins.take([&](const Net& net) {
      // Layer 7 is square: used at its place, and again at the very beginning.
      const auto first = torch::matmul(x.narrow(1, 0, 24), net.weights[7].t());
      return net.loss(torch::cat({first, x.narrow(1, 24, 16)}, 1));
    });
    EXPECT_EQ(twins.step.stepped_behind(), turn == 0 ? 0 : 10);
  }
  twins.expect_equal("tied weights");
}

TEST(OverlappedStep, ViewsAndCopiesOfAWeightAreReadBeforeItMoves) {
  Twins twins(cayley_sgd());
  for (int turn = 0; turn < 3; ++turn) {
    const auto x = input();
    twins.take([&](const Net& net) {
      auto y = torch::matmul(x, net.weights[0].view({32, 40}).t());
      y = torch::matmul(y, net.weights[1].to(at::kFloat).to(at::kDouble).t());
      return torch::matmul(y,
                           torch::cat({net.weights[2].narrow(0, 0, 8), net.weights[2].narrow(0, 8, 24)}).t())
          .pow(3)
          .sum();
    });
  }
  twins.expect_equal("views");
}

TEST(OverlappedStep, TakesReducedPrecision) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    std::vector<Tensor> start;
    for (int i = 0; i < 4; ++i) start.push_back(support::point({24, 24}, at::kFloat));
    const auto weights_of = [&] {
      std::vector<Tensor> weights;
      for (const auto& t : start) weights.push_back(t.detach().to(type).requires_grad_());
      weights.push_back(support::copy_of(start[0]));  // a float one beside them: computed with the masters
      return weights;
    };
    const auto plain = weights_of(), overlapped = weights_of();
    stiefel::CayleySGD first(plain, stiefel::CayleySGDOptions(0.1).momentum(0.9));
    stiefel::CayleySGD second(overlapped, stiefel::CayleySGDOptions(0.1).momentum(0.9));
    OverlappedStep step(second);
    for (int turn = 0; turn < 3; ++turn) {
      const auto x = torch::randn({6, 24});
      const auto loss = [&](const std::vector<Tensor>& weights) {
        auto y = x;
        for (const auto& weight : weights) y = torch::matmul(y, weight.to(at::kFloat).t());
        return y.pow(3).sum();
      };
      first.zero_grad();
      loss(plain).backward();
      first.step();
      second.zero_grad();
      step.backward_and_step(loss(overlapped));
    }
    EXPECT_EQ(step.stepped_behind(), 5);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(plain[i].equal(overlapped[i])) << type << i;
    EXPECT_EQ(support::save(first), support::save(second));
  }
}

TEST(OverlappedStep, GoesOnFromAnArchive) {
  Twins twins(cayley_sgd());
  const auto x = input();
  const auto loss = [&](const Net& net) { return net.loss(x); };
  for (int turn = 0; turn < 3; ++turn) twins.take(loss);
  const auto again = twins.overlapped.copy();
  const auto optimizer = cayley_sgd()(again);
  OverlappedStep step(*optimizer);
  support::load(*optimizer, support::save(*twins.optimizer));
  for (int turn = 0; turn < 2; ++turn) {
    twins.take(loss);
    optimizer->zero_grad();
    step.backward_and_step(loss(again));
  }
  expect_equal(again, twins.plain, "from an archive");
}

TEST(OverlappedStep, FollowsASchedule) {
  Twins twins(cayley_sgd());
  for (int turn = 0; turn < 4; ++turn) {
    for (auto* optimizer : {twins.plain_optimizer.get(), twins.optimizer.get()}) {
      for (auto& group : optimizer->param_groups()) group.options().set_lr(0.1 / (1 + turn));
    }
    const auto x = input();
    twins.take([&](const Net& net) { return net.loss(x); });
  }
  twins.expect_equal("a schedule");
}

TEST(OverlappedStep, SeveralOptimizersAndLaterGroups) {
  const Net start;
  struct Side {
    Net net;
    stiefel::CayleySGD sgd;
    stiefel::CayleyAdam adam;
    stiefel::AdamW rest;
    explicit Side(const Net& from)
        : net(from.copy()),
          sgd(std::vector<Tensor>(net.weights.begin(), net.weights.begin() + 4),
              stiefel::CayleySGDOptions(0.1)),
          adam(std::vector<Tensor>(net.weights.begin() + 4, net.weights.end()),
               stiefel::CayleyAdamOptions(0.1)),
          rest(net.biases, torch::optim::AdamWOptions(1e-3)) {}
    void add_stack() {
      OptimizerParamGroup group(net.stacks, stiefel::CayleySGDOptions(0.05).batched(true).clone());
      sgd.add_param_group(group);
    }
    void zero_grad() {
      for (const auto& parameter : net.all()) parameter.mutable_grad() = Tensor();
    }
  };
  Side plain(start), overlapped(start);
  OverlappedStep step({&overlapped.sgd, &overlapped.adam, &overlapped.rest});
  for (int turn = 0; turn < 6; ++turn) {
    if (turn == 3) {
      plain.add_stack();
      overlapped.add_stack();
    }
    const auto x = input();
    plain.zero_grad();
    plain.net.loss(x).backward();
    plain.sgd.step();
    plain.adam.step();
    plain.rest.step();
    overlapped.zero_grad();
    const auto loss = step.step([&] {
      auto value = overlapped.net.loss(x);
      value.backward();
      return value;
    });
    EXPECT_TRUE(loss.defined());
    EXPECT_EQ(step.stepped_behind(), turn % 3 == 0 ? 0 : turn < 3 ? 9 : 10) << turn;
  }
  expect_equal(overlapped.net, plain.net, "several optimisers");
}

TEST(OverlappedStep, AMatrixOffTheManifoldIsTheErrorOfFinish) {
  Twins twins(cayley_sgd());
  const auto x = input();
  const auto loss = [&](const Net& net) { return net.loss(x); };
  for (int turn = 0; turn < 2; ++turn) twins.take(loss);
  for (auto* net : {&twins.plain, &twins.overlapped}) net->weights[4].detach().mul_(3);
  twins.plain_optimizer->zero_grad();
  loss(twins.plain).backward();
  EXPECT_ERROR(twins.plain_optimizer->step(), "off the manifold");
  twins.optimizer->zero_grad();
  EXPECT_ERROR(twins.step.backward_and_step(loss(twins.overlapped)), "off the manifold");
  twins.expect_equal("all others have moved");
  for (auto* net : {&twins.plain, &twins.overlapped}) net->weights[4].detach().div_(3);
  twins.take(loss);
  twins.expect_equal("afterwards");
}

/// Switches the CPU's autocast to bfloat16 on or off.
void set_autocast(bool on) {
#if TORCH_VERSION_MAJOR >= 2
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, on);
#else
  at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
  at::autocast::set_cpu_enabled(on);
#endif
}

TEST(OverlappedStep, AutocastAroundTheBackwardPassStaysOutOfTheStep) {
  Twins twins(cayley_sgd(), Net(at::kFloat));
  for (int turn = 0; turn < 3; ++turn) {
    const auto x = input(at::kFloat);
    twins.plain_optimizer->zero_grad();
    const auto plain_loss = twins.plain.loss(x), loss = twins.overlapped.loss(x);
    twins.optimizer->zero_grad();
    twins.step.begin();
    set_autocast(true);
    plain_loss.backward();
    loss.backward();
    set_autocast(false);
    twins.plain_optimizer->step();
    twins.step.finish();
  }
  twins.expect_equal("autocast");
}

TEST(OverlappedStep, StepAndBeginAtTheWrongTimeAreErrors) {
  const Net net;
  const auto optimizer = cayley_sgd()(net);
  OverlappedStep step(*optimizer), other(*optimizer);
  EXPECT_ERROR(step.finish(), "after begin()");
  step.begin();
  EXPECT_ERROR(optimizer->step(), "finish()");
  EXPECT_ERROR(other.begin(), "another OverlappedStep");
  EXPECT_ERROR(optimizer->step(), "finish()");
  step.finish();
  optimizer->step();
  other.begin();
  other.cancel();
  optimizer->step();
  {
    OverlappedStep third(*optimizer);
    third.begin();
  }
  optimizer->step();
  EXPECT_ERROR(OverlappedStep(*optimizer, OverlapOptions().parts(0)), "parts must be at least 1; got 0");
  torch::optim::SGD same({net.weights[0]}, 0.1);
  EXPECT_ERROR(OverlappedStep({optimizer.get(), &same}), "belongs to two optimisers");
}

TEST(OverlappedStep, NothingIsLeftBehindItsEnd) {
  const Net net;
  const auto optimizer = cayley_sgd()(net);
  {
    OverlappedStep step(*optimizer);
    for (int turn = 0; turn < 2; ++turn) step.backward_and_step(net.loss(input()));
  }
  const auto before = net.copy();
  net.loss(input()).backward();
  expect_equal(net, before, "a backward pass alone");
}

TEST(OverlappedStep, RanksThatShareStepsAreRefused) {
  support::run_ranks(1, [](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto weight = support::point({4, 8});
    stiefel::CayleySGD shared({weight}, stiefel::CayleySGDOptions(0.1));
    shared.distribute(ranks);
    OverlappedStep step(shared);
    EXPECT_ERROR(step.begin(), "call step() then");
    weight.square().sum().backward();
    shared.step();
  });
}

}  // namespace overlapped_step_test
