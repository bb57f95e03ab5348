#include "retraction_cases.h"

// RetractionSGD: its trajectories against a dense simulation, and what it shares with every optimiser here.

namespace retraction_sgd_test {

using at::Tensor;
using cases::Groups;
using cases::kTypes;
using stiefel::CayleyExact;
using stiefel::Manifold;
using stiefel::MomentumParamState;
using stiefel::Polar;
using stiefel::Qr;
using stiefel::RetractionSGD;
using stiefel::RetractionSGDOptions;
using support::copy_of;
using support::distance;
using support::randomize_gradients;
using support::set_gradient;

const MomentumParamState& state_of(torch::optim::Optimizer& optimizer) {
  return static_cast<const MomentumParamState&>(*optimizer.state().begin()->second);
}

struct Layout {
  std::vector<int64_t> shape;
  bool batched;
  bool channels_last;
};

const std::vector<Layout> kLayouts{
    {{4, 11}, false, false},  {{11, 4}, false, false},     {{6, 6}, false, false},
    {{1, 7}, false, false},   {{5, 8}, false, false},      {{2, 4, 9}, true, false},
    {{2, 9, 4}, true, false}, {{6, 3, 2, 2}, false, true}, {{9, 2, 2, 1}, false, true}};

/// M ← βM + G, M ← its tangent part, X ← R_X(−lM), for each matrix of a weight, in double.
class Simulation {
 public:
  Simulation(const cases::Case& one, const Tensor& weight, const Layout& layout)
      : one_(one), layout_(layout), x_(tall(weight)) {
    for (const auto& x : x_) m_.push_back(torch::zeros_like(x));
  }

  void step(const Tensor& gradient, double rate, double momentum) {
    const auto g = tall(gradient);
    for (size_t i = 0; i < x_.size(); ++i) {
      m_[i] = cases::project(x_[i], momentum * m_[i] + g[i]);
      x_[i] = one_.definition(x_[i], m_[i], rate);
    }
  }

  double distance_to(const Tensor& weight, const Tensor& momentum) const {
    double worst = 0;
    const auto x = tall(weight);
    const auto m = momentum.defined() ? tall(momentum) : m_;
    for (size_t i = 0; i < x_.size(); ++i)
      worst = std::max({worst, distance(x[i], x_[i]), distance(m[i], m_[i])});
    return worst;
  }

 private:
  /// A channels-last weight is read in the order of its memory. That shows in one place: the columns of a
  /// tall one come in that order, and the Q factor depends on the order of the columns.
  std::vector<Tensor> tall(const Tensor& t) const {
    return reference::tall(layout_.channels_last ? t.permute({0, 2, 3, 1}) : t, layout_.batched);
  }

  const cases::Case& one_;
  const Layout& layout_;
  std::vector<Tensor> x_, m_;
};

TEST(RetractionSgd, FollowsTheDenseSimulation) {
  for (const auto& one : cases::every()) {
    for (const auto type : kTypes) {
      for (const auto& layout : kLayouts) {
        for (const double momentum : {0.0, 0.9}) {
          SCOPED_TRACE(::testing::Message() << one.name << " " << type << " " << at::IntArrayRef(layout.shape)
                                            << " momentum " << momentum);
          auto weight = reference::orthonormal_weight(layout.shape, layout.batched, type);
          if (layout.channels_last) weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
          weight.requires_grad_();
          const auto optimizer = one.sgd({weight}, 0.1, momentum, layout.batched);
          Simulation simulation(one, weight, layout);
          const auto start = copy_of(weight);
          for (int step = 0; step < 50; ++step) {
            randomize_gradients({weight}, 0.5);
            const auto gradient = weight.grad().clone();
            optimizer->step();
            EXPECT_TRUE(torch::equal(weight.grad(), gradient)) << "the gradient was changed";
            simulation.step(gradient, 0.1, momentum);
          }
          EXPECT_LT(simulation.distance_to(weight, state_of(*optimizer).momentum_buffer), 1e-11);
          EXPECT_GT(distance(weight, start), 0.05) << "it hardly moved";
        }
      }
    }
  }
}

TEST(RetractionSgd, BareKeepsNoMomentum) {
  for (const auto& one : cases::every()) {
    const auto weight = support::point({4, 9});
    const auto bare = one.sgd({weight}, 0.1, 0, false);
    randomize_gradients({weight});
    bare->step();
    EXPECT_FALSE(state_of(*bare).momentum_buffer.defined()) << one.name;
    const auto with = one.sgd({copy_of(weight)}, 0.1, 0.9, false);
    set_gradient(with->param_groups()[0].params()[0], weight.grad());
    with->step();
    EXPECT_TRUE(state_of(*with).momentum_buffer.defined()) << one.name;
  }
}

TEST(RetractionSgd, ByTheExactFormIsExactCayleySgd) {
  for (const auto type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{4, 11}, {6, 6}, {11, 4}}) {
      for (const double momentum : {0.0, 0.9}) {
        const auto a = support::point(shape, type);
        const auto b = copy_of(a);
        RetractionSGD<CayleyExact> ours({a}, RetractionSGDOptions<CayleyExact>(0.2).momentum(momentum));
        stiefel::CayleySGD theirs({b}, stiefel::CayleySGDOptions(0.2).momentum(momentum).exact(true));
        for (int step = 0; step < 50; ++step) {
          randomize_gradients({a}, 0.5);
          set_gradient(b, a.grad());
          ours.step();
          theirs.step();
        }
        EXPECT_LT(distance(a, b), 1e-13) << type << " " << shape << " " << momentum;
      }
    }
  }
}

/// A policy as a user would write one: nothing but a name and a call.
struct Mine {
  static constexpr const char* kName = "mine";
  Tensor operator()(const Tensor& point, const Tensor& tangent) const {
    const auto y = point + tangent;
    const auto [values, vectors] = at::linalg_eigh(at::matmul(y, y.mH()));
    return at::matmul(at::matmul(vectors * values.rsqrt().unsqueeze(-2), vectors.mH()), y);
  }
};

TEST(RetractionSgd, TakesAPolicyOfTheUser) {
  for (const auto type : kTypes) {
    for (const double momentum : {0.0, 0.9}) {
      const auto a = support::point({4, 9}, type);
      const auto b = copy_of(a);
      RetractionSGD<Mine> mine({a}, RetractionSGDOptions<Mine>(0.1).momentum(momentum));
      RetractionSGD<Polar> polar({b}, RetractionSGDOptions<Polar>(0.1).momentum(momentum));
      for (int step = 0; step < 20; ++step) {
        randomize_gradients({a}, 0.5);
        set_gradient(b, a.grad());
        mine.step();
        polar.step();
      }
      EXPECT_LT(distance(a, b), 1e-12) << type << " " << momentum;
      support::load(mine, support::save(mine));
    }
  }
}

TEST(RetractionSgd, EuclideanGroupsAreTorchSgd) {
  for (const bool nesterov : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      if (nesterov && momentum == 0) continue;
      const auto a = torch::randn({5, 7}, at::kDouble).requires_grad_();
      const auto b = copy_of(a);
      const auto free = RetractionSGDOptions<Qr>(0.05)
                            .manifold(Manifold::kEuclidean)
                            .momentum(momentum)
                            .nesterov(nesterov)
                            .weight_decay(0.01);
      const auto weight = support::point({4, 9});
      RetractionSGD<Qr> ours(Groups{{{weight}}, {{a}, free.clone()}}, RetractionSGDOptions<Qr>(0.1));
      const auto options =
          torch::optim::SGDOptions(0.05).momentum(momentum).nesterov(nesterov).weight_decay(0.01);
      torch::optim::SGD theirs({b}, options);
      for (int step = 0; step < 20; ++step) {
        randomize_gradients({a, weight});
        set_gradient(b, a.grad());
        ours.step();
        theirs.step();
      }
      EXPECT_LT(distance(a, b), 1e-15);
      EXPECT_LT(support::defect(weight), 1e-14);
    }
  }
}

TEST(RetractionSgd, ANonFiniteGradientLeavesPointAndMomentumAlone) {
  for (const auto& one : cases::every()) {
    for (const double momentum : {0.0, 0.9}) {
      for (const double bad : {std::nan(""), HUGE_VAL, 1e300}) {
        SCOPED_TRACE(::testing::Message() << one.name << " momentum " << momentum << " " << bad);
        // Skipping a bad step and going on equals never having had it; the neighbour goes on meanwhile.
        const auto a = support::point({4, 9}), b = support::point({4, 9});
        const auto alone_a = copy_of(a), alone_b = copy_of(b);
        const auto both = one.sgd({a, b}, 0.1, momentum, false);
        const auto first = one.sgd({alone_a}, 0.1, momentum, false);
        const auto second = one.sgd({alone_b}, 0.1, momentum, false);
        for (int step = 0; step < 6; ++step) {
          const bool spoil = step % 2 == 1;
          randomize_gradients({a, b});
          set_gradient(alone_a, a.grad());
          set_gradient(alone_b, b.grad());
          if (spoil) a.mutable_grad()[1][2] = bad;
          both->step();
          if (!spoil) first->step();
          second->step();
        }
        EXPECT_LT(distance(a, alone_a), 1e-14);
        EXPECT_LT(distance(b, alone_b), 1e-14);
        EXPECT_EQ(both->skipped_steps(), 3);
      }
    }
  }
}

TEST(RetractionSgd, ASkippedMatrixKeepsPointAndMomentumBitForBit) {
  for (const auto& one : cases::every()) {
    const auto weight = support::point({4, 9});
    const auto optimizer = one.sgd({weight}, 0.1, 0.9, false);
    randomize_gradients({weight});
    optimizer->step();
    const auto before = copy_of(weight), momentum = state_of(*optimizer).momentum_buffer.clone();
    set_gradient(weight, torch::full_like(weight, NAN));
    optimizer->step();
    EXPECT_TRUE(torch::equal(weight, before)) << one.name;
    EXPECT_TRUE(torch::equal(state_of(*optimizer).momentum_buffer, momentum)) << one.name;
  }
}

TEST(RetractionSgd, HalfKeepsAMaster) {
  for (const auto& one : cases::every()) {
    const auto exact = support::point({8, 20}, at::kFloat);
    const auto rounded = exact.detach().to(at::kBFloat16).requires_grad_();
    const auto optimizer = one.sgd({rounded}, 0.05, 0.9, false);
    const auto start = state_of(*optimizer).master.clone().requires_grad_();
    const auto reference = one.sgd({start}, 0.05, 0.9, false);
    for (int step = 0; step < 50; ++step) {
      set_gradient(rounded, (torch::randn({8, 20}) * 0.1).to(at::kBFloat16));
      set_gradient(start, rounded.grad().to(at::kFloat));
      optimizer->step();
      reference->step();
    }
    EXPECT_TRUE(torch::equal(state_of(*optimizer).master, start.detach())) << one.name;
    EXPECT_TRUE(torch::equal(start.detach().to(at::kBFloat16), rounded.detach())) << one.name;
    if (one.retract) {  // the others come near the manifold only
      EXPECT_LT(support::defect(start), 2e-5) << one.name;
    }
  }
}

TEST(RetractionSgd, ALazilyConjugatedParameterMovesToo) {
  for (const auto& one : cases::every()) {
    const auto plain = support::point({5, 12}, at::kComplexDouble);
    const auto lazy = plain.detach().conj().resolve_conj().conj().requires_grad_();
    ASSERT_TRUE(lazy.is_conj());
    const auto first = one.sgd({plain}, 0.1, 0.9, false);
    const auto second = one.sgd({lazy}, 0.1, 0.9, false);
    for (int step = 0; step < 5; ++step) {
      randomize_gradients({plain});
      lazy.mutable_grad() = plain.grad().conj().resolve_conj().conj();
      first->step();
      second->step();
    }
    EXPECT_LT(distance(plain, lazy), 1e-14) << one.name;
  }
}

}  // namespace retraction_sgd_test
