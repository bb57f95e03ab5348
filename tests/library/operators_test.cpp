#include "tests/support.h"

// The operators read a weight as the rest of the library does: (c_out, …) is one matrix, (…, p, n) a stack
// where `batched` says so, and memory in any order that has rows is stepped where it lies.

namespace operators_test {

using at::Tensor;

struct Step {
  Tensor x, m, g, v, k, skipped = torch::zeros({}, at::kLong), rate = torch::full({}, 0.1, at::kDouble);

  Step(const Tensor& weight, const Tensor& gradient, bool batched)
      : x(weight.clone(at::MemoryFormat::Preserve)), m(torch::zeros_like(x)), g(gradient) {
    const auto shape = stiefel::defect(x, batched).sizes().vec();  // of a tensor that is gone after this line
    v = torch::zeros(shape, at::kDouble);
    k = torch::zeros(shape, at::kDouble);
  }
  void sgd(bool batched) { stiefel::cayley_sgd_({x}, {m}, {g}, skipped, rate, 0.9, {}, batched); }
  void adam(bool batched) {
    stiefel::cayley_adam_({x}, {m}, {v}, {k}, {g}, skipped, rate, 0.9, 0.99, {}, batched);
  }
};

TEST(Operators, AConvolutionsWeightIsOneMatrix) {
  for (const auto& shape : {std::vector<int64_t>{8, 3, 3, 3}, {30, 3, 2, 2}, {6, 2, 3}, {12, 1, 3, 4}}) {
    const auto weight = support::point(shape).detach();
    const auto gradient = torch::randn_like(weight);
    for (const bool adam : {false, true}) {
      Step whole(weight, gradient, false);
      Step flat(weight.flatten(1), gradient.flatten(1), false);
      for (int i = 0; i < 3; ++i) {
        adam ? whole.adam(false) : whole.sgd(false);
        adam ? flat.adam(false) : flat.sgd(false);
      }
      EXPECT_LT(support::distance(whole.x.flatten(1), flat.x), 1e-15) << shape;
      EXPECT_LT(stiefel::defect(whole.x).item<double>(), 1e-13) << shape;  // as defect reads it
      EXPECT_GT(support::distance(whole.x, weight), 1e-3) << shape;
    }
  }
}

TEST(Operators, BatchedReadsAStack) {
  const auto stack = support::point({2, 3, 5, 8}, at::kDouble, true).detach();
  const auto gradient = torch::randn_like(stack);
  Step whole(stack, gradient, true);
  whole.sgd(true);
  for (int64_t i = 0; i < 6; ++i) {
    Step one(stack[i / 3][i % 3], gradient[i / 3][i % 3], false);
    one.sgd(false);
    EXPECT_LT(support::distance(whole.x[i / 3][i % 3], one.x), 1e-15);
  }
}

TEST(Operators, ChannelsLastWeightsAreSteppedWhereTheyLie) {
  for (const auto& shape : {std::vector<int64_t>{8, 3, 3, 3}, {30, 3, 2, 2}}) {
    const auto weight = support::point(shape).detach();
    const auto gradient = torch::randn_like(weight);
    const auto last = [](const Tensor& t) { return t.contiguous(at::MemoryFormat::ChannelsLast); };
    Step plain(weight, gradient, false);
    // Everything channels-last; and a gradient in another order than its weight.
    for (const auto& g : {last(gradient), gradient}) {
      Step step(last(weight), g, false);
      ASSERT_TRUE(step.x.is_contiguous(at::MemoryFormat::ChannelsLast));
      const auto* memory = step.x.data_ptr();
      plain = Step(weight, gradient, false);
      for (int i = 0; i < 3; ++i) {
        step.sgd(false);
        plain.sgd(false);
      }
      EXPECT_EQ(step.x.data_ptr(), memory);
      EXPECT_LT(support::distance(step.x, plain.x), 1e-14) << shape;
      EXPECT_LT(support::distance(step.m, plain.m), 1e-14) << shape;
    }
    // A view, not a copy: what is written to the matrices shows in the weight.
    const auto home = last(weight);
    const stiefel::MatrixView view(home);
    EXPECT_TRUE(view(home).is_alias_of(home)) << shape;
  }
}

TEST(Operators, AMomentumInAnotherOrderIsWrittenBack) {
  const auto weight = support::point({8, 3, 3, 3}).detach();
  const auto gradient = torch::randn_like(weight);
  Step plain(weight, gradient, false), mixed(weight, gradient, false);
  mixed.m = mixed.m.contiguous(at::MemoryFormat::ChannelsLast);
  for (int i = 0; i < 3; ++i) {
    plain.sgd(false);
    mixed.sgd(false);
  }
  EXPECT_LT(support::distance(plain.x, mixed.x), 1e-15);
  EXPECT_LT(support::distance(plain.m, mixed.m), 1e-15);
}

TEST(Operators, RetractionAndNormReadWeightsAlike) {
  const auto weight = support::point({8, 3, 3, 3}).detach();
  const auto tangent = stiefel::project_tangent(weight, torch::randn_like(weight)) * 0.1;
  const auto moved = stiefel::cayley_retraction(weight, tangent);
  EXPECT_EQ(moved.sizes(), weight.sizes());
  EXPECT_LT(stiefel::defect(moved).item<double>(), 1e-13);
  EXPECT_LT(
      support::distance(moved.flatten(1), stiefel::cayley_retraction(weight.flatten(1), tangent.flatten(1))),
      1e-15);
  EXPECT_EQ(stiefel::generator_norm(weight, tangent, stiefel::Norm::kFrobenius).dim(), 0);
  EXPECT_EQ(stiefel::generator_norm(weight, tangent, stiefel::Norm::kFrobenius, true).sizes(),
            (std::vector<int64_t>{8, 3}));
}

}  // namespace operators_test
