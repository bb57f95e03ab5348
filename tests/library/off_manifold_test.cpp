#include <functional>
#include <limits>

#include "tests/support.h"

// Matrices that a step cannot take: too far off the manifold, or out of reach of their retraction. Each is
// left bit for bit where it is, with its momentum, and counted, while all others move.

namespace off_manifold_test {

using at::Tensor;
using stiefel::CayleyAdam;
using stiefel::CayleyAdamOptions;
using stiefel::CayleySGD;
using stiefel::CayleySGDOptions;

/// What can happen to a weight between two steps.
struct Mishap {
  const char* name;
  std::function<void(const Tensor&)> strike;
};

const std::vector<Mishap>& mishaps() {
  static const std::vector<Mishap> all{
      {"scaled", [](const Tensor& w) { w.mul_(5); }},
      {"scaled beyond float", [](const Tensor& w) { w.mul_(1e30); }},
      {"zeroed", [](const Tensor& w) { w.zero_(); }},
      {"loaded from a free network", [](const Tensor& w) { w.normal_(); }},
      {"one direction twice",  // all of unit length
       [](const Tensor& w) {
         const auto rows = w.size(0) <= w.numel() / w.size(0) ? w : w.t();
         rows[1].copy_(rows[0]);
       }},
      {"not a number", [](const Tensor& w) { w.view({-1})[3] = NAN; }},
      {"infinite", [](const Tensor& w) { w.view({-1})[3] = std::numeric_limits<double>::infinity(); }},
  };
  return all;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto bytes = [](const Tensor& t) { return t.detach().contiguous().view(at::kByte); };
  return torch::equal(bytes(a), bytes(b));
}

template <class Optimizer, class Options>
void expect_left_and_told(const Options& options, const Mishap& mishap, const std::vector<int64_t>& shape,
                          at::ScalarType type, double largest = 1e-5) {
  SCOPED_TRACE(::testing::Message() << mishap.name << " " << shape << " " << type);
  const auto struck = support::point(shape, type);
  const auto beside = support::point(shape, type);
  const auto other = support::point({6, 10}, type);
  Optimizer optimizer({struck, beside, other}, options);
  support::randomize_gradients({struck, beside, other});
  optimizer.step();
  mishap.strike(struck.detach());
  std::vector<Tensor> before;
  for (const auto& t : {struck, beside, other}) before.push_back(t.detach().clone());
  const auto state = support::save(optimizer);
  support::randomize_gradients({struck, beside, other});
  EXPECT_ERROR(optimizer.step(), "off the manifold by");
  EXPECT_TRUE(same_bits(struck, before[0]));
  EXPECT_EQ(optimizer.skipped_steps(), 1);
  for (const auto& [moved, from] : {std::pair{beside, before[1]}, {other, before[2]}}) {
    EXPECT_GT(support::distance(moved, from), 1e-6);
    EXPECT_LT(support::defect(moved), largest);
  }
  // Told again at every step, until it is mended; then all move, along a momentum that held.
  EXPECT_ERROR(optimizer.step(), "orthonormalize_");
  stiefel::init::haar_(before[0]);
  struck.detach().copy_(before[0]);
  optimizer.step();
  EXPECT_EQ(optimizer.skipped_steps(), 2);
  EXPECT_GT(support::distance(struck, before[0]), 1e-6);
  EXPECT_LT(support::defect(struck), largest);
}

TEST(OffManifold, ACayleyStepLeavesTheMatrixAndSaysSo) {
  for (const auto& mishap : mishaps()) {
    for (const auto& shape : {std::vector<int64_t>{4, 9}, {9, 4}, {5, 5}, {4, 3, 2, 2}}) {
      expect_left_and_told<CayleySGD>(CayleySGDOptions(0.1).momentum(0.9), mishap, shape, at::kFloat);
      expect_left_and_told<CayleyAdam>(CayleyAdamOptions(0.1), mishap, shape, at::kDouble);
      expect_left_and_told<CayleySGD>(CayleySGDOptions(0.1).momentum(0.9).exact(true), mishap, shape,
                                      at::kDouble);
    }
  }
}

TEST(OffManifold, TheErrorNamesShapeDefectAndRemedy) {
  const auto weight = support::point({8, 3, 3, 3});
  CayleySGD optimizer({support::point({4, 9}), weight}, CayleySGDOptions(0.1));
  weight.detach().mul_(5);  // XᴴX − I = 24 I
  support::set_gradient(weight, torch::randn_like(weight));
  for (const auto* part : {"[8, 3, 3, 3]", "= 67.88", "stiefel::orthonormalize_", "1 matrix was"}) {
    EXPECT_ERROR(optimizer.step(), part);
  }
}

TEST(OffManifold, AdamKeepsItsNumbersWithTheMatrix) {
  const auto stack = support::point({3, 4, 9}, at::kDouble, true).detach();
  const auto m = torch::zeros_like(stack);
  const auto v = torch::zeros({3}, at::kDouble), k = torch::zeros({3}, at::kDouble);
  const auto skipped = torch::zeros({}, at::kLong), off = torch::zeros({}, at::kLong);
  const auto rate = torch::full({}, 0.1, at::kDouble);
  const auto step = [&](const Tensor& g) {
    stiefel::cayley_adam_({stack}, {m}, {v}, {k}, {g}, skipped, rate, 0.9, 0.99, {}, true, off);
  };
  step(torch::randn_like(stack));
  stack[1].mul_(3);
  const auto old_m = m.clone(), old_v = v.clone();
  auto gradient = torch::randn_like(stack);
  gradient[2].fill_(NAN);
  step(gradient);
  EXPECT_EQ(skipped.item<int64_t>(), 2);
  EXPECT_EQ(off.item<int64_t>(), 1);  // the other's gradient was at fault
  EXPECT_EQ(k[0].item<double>(), 2);
  for (const int64_t i : {1, 2}) {
    EXPECT_TRUE(torch::equal(m[i], old_m[i]));
    EXPECT_EQ(v[i].item<double>(), old_v[i].item<double>());
    EXPECT_EQ(k[i].item<double>(), 1);
  }
}

TEST(OffManifold, AnOperatorWithoutTheCounterThrowsAfterTheOthersMoved) {
  const auto far = support::point({4, 9}).detach() * 2, near = support::point({5, 9}).detach();
  const auto before = near.clone();
  const auto skipped = torch::zeros({}, at::kLong);
  EXPECT_ERROR(stiefel::cayley_sgd_({far, near}, {torch::zeros_like(far), torch::zeros_like(near)},
                                    {torch::randn_like(far), torch::randn_like(near)}, skipped,
                                    torch::full({}, 0.1, at::kDouble), 0.9),
               "[4, 9]");
  EXPECT_EQ(skipped.item<int64_t>(), 1);
  EXPECT_GT(support::distance(near, before), 1e-6);
}

TEST(OffManifold, AHalfParameterThatIsLoadedLaterIsFollowed) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto weight = support::point({6, 14}, at::kFloat).detach().to(type).requires_grad_();
    const auto other = support::point({6, 14}, at::kFloat).detach();
    CayleySGD optimizer({weight}, CayleySGDOptions(0.01));
    const auto step = [&] {
      support::set_gradient(weight, torch::randn({6, 14}).to(type) * 0.1);
      optimizer.step();
    };
    step();
    weight.detach().copy_(other);  // as loading a checkpoint does
    step();
    EXPECT_LT(support::distance(weight.to(at::kFloat), other), 0.02) << type;
    const auto& state = static_cast<stiefel::ParamState&>(*optimizer.state().begin()->second);
    EXPECT_LT(support::defect(state.master), 1e-5) << type;
    weight.detach().mul_(5);
    const auto before = weight.detach().clone();
    EXPECT_ERROR(step(), "off the manifold by");
    EXPECT_TRUE(torch::equal(weight, before)) << type;
    weight.detach().copy_(other);
    step();
    EXPECT_LT(support::distance(weight.to(at::kFloat), other), 0.02) << type;
  }
}

TEST(OffManifold, WhatAStepCanDrawInIsDrawnIn) {
  for (const double off : {1e-3, 0.05, 0.2, 0.45}) {
    const auto weight = support::point({6, 14});
    CayleySGD optimizer({weight}, CayleySGDOptions(0.05).momentum(0.9));
    // (1 + s)² − 1 on each of six directions
    weight.detach().mul_(std::sqrt(1 + off / std::sqrt(6.0)));
    EXPECT_NEAR(support::defect(weight), off, 1e-9);
    for (int step = 0; step < 5; ++step) {
      support::randomize_gradients({weight});
      optimizer.step();
    }
    EXPECT_LT(support::defect(weight), 1e-12);
    EXPECT_EQ(optimizer.skipped_steps(), 0);
  }
}

TEST(OffManifold, ThePaperToTheLetterStartsAnywhere) {
  const auto weight = support::point({4, 9});
  CayleySGD optimizer({weight}, CayleySGDOptions(0.01).polish(false));
  weight.detach().mul_(3);
  support::randomize_gradients({weight});
  const auto before = support::copy_of(weight);
  optimizer.step();
  EXPECT_EQ(optimizer.skipped_steps(), 0);
  EXPECT_GT(support::distance(weight, before), 1e-6);
}

TEST(OffManifold, ARetractionLeavesAScaledMatrixToo) {
  const auto expect = [](auto policy, double largest = 1e-5) {
    using Optimizer = stiefel::RetractionSGD<decltype(policy)>;
    for (const double momentum : {0.0, 0.9}) {
      for (const auto& mishap : mishaps()) {
        if (std::string(mishap.name) == "one direction twice") continue;  // ‖X‖ does not show it
        expect_left_and_told<Optimizer>(
            typename Optimizer::Options(0.1).momentum(momentum).retraction(policy), mishap, {4, 9},
            at::kDouble, largest);
      }
    }
  };
  expect(stiefel::Qr{});
  expect(stiefel::Polar{});
  expect(stiefel::WenYin{});
  expect(stiefel::CayleyClosed{});
  expect(stiefel::Pogo{});
  expect(stiefel::Landing{}, stiefel::Landing{}.epsilon);
}

TEST(Retractions, ARateFarTooLargeIsSkippedAndCounted) {
  const auto expect = [](auto policy, const char* name, bool repairs = true) {
    using Optimizer = stiefel::RetractionSGD<decltype(policy)>;
    for (const double momentum : {0.0, 0.9}) {
      for (const double rate : {1e6, 1e12, 1e30}) {
        SCOPED_TRACE(::testing::Message() << name << " at " << rate);
        std::vector<Tensor> weights{support::point({16, 40}, at::kFloat),
                                    support::point({12, 12}, at::kFloat)};
        Optimizer optimizer(weights, typename Optimizer::Options(rate).momentum(momentum).retraction(policy));
        for (int step = 0; step < 40; ++step) {
          // Gradients of one direction and of all by turns.
          support::randomize_gradients(weights, 1);
          if (step % 2 == 0) {
            for (const auto& weight : weights) {
              const auto [p, n] = std::pair{weight.size(0), weight.size(1)};
              support::set_gradient(weight, torch::outer(torch::randn({p}), torch::randn({n})));
            }
          }
          optimizer.step();
          for (const auto& weight : weights) {
            ASSERT_TRUE(weight.isfinite().all().item<bool>());
            ASSERT_LT(std::abs(weight.square().sum().item<double>() - static_cast<double>(weight.size(0))),
                      0.3);
            if (repairs) {
              ASSERT_LT(support::defect(weight), 0.5);
            }
          }
        }
      }
    }
  };
  stiefel::Polar newton_schulz;
  newton_schulz.by = stiefel::Polar::By::kNewtonSchulz;
  expect(newton_schulz, "polar by Newton–Schulz");
  stiefel::Qr cholesky;
  cholesky.by = stiefel::Qr::By::kCholesky;
  expect(cholesky, "QR by Cholesky");
  expect(stiefel::Polar{}, "polar");
  expect(stiefel::Qr{}, "QR");
  expect(stiefel::WenYin{}, "Wen and Yin", false);
  expect(stiefel::CayleyClosed{}, "closed Cayley", false);
  expect(stiefel::Pogo{}, "POGO");

  // Where the gradient has one direction, all others shrink by the rate's square and the iteration cannot
  // bring them back.
  const auto weight = support::point({16, 40}, at::kFloat);
  const auto before = support::copy_of(weight);
  using Optimizer = stiefel::RetractionSGD<stiefel::Polar>;
  Optimizer optimizer({weight}, Optimizer::Options(1e6).retraction(newton_schulz));
  support::set_gradient(weight, torch::outer(torch::randn({16}), torch::randn({40})));
  optimizer.step();
  EXPECT_EQ(optimizer.skipped_steps(), 1);
  EXPECT_TRUE(same_bits(weight, before));
}

}  // namespace off_manifold_test
