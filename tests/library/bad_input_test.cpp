#include "tests/support.h"

// Every error names the value at fault; nothing is changed silently.

namespace bad_input_test {

using at::Tensor;
using stiefel::CayleyAdam;
using stiefel::CayleyAdamOptions;
using stiefel::CayleySGD;
using stiefel::CayleySGDOptions;
using stiefel::Manifold;
using support::Warnings;

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

TEST(Options, OutOfRangeNamesTheOption) {
  const std::vector<Tensor> a{support::point({4, 9})};
  const double nan = std::nan("");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(-0.1)), "lr");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(nan)), "lr");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(HUGE_VAL)), "lr");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).momentum(-0.1)), "momentum");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).momentum(1)), "momentum");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).momentum(nan)), "momentum");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).eps(-1)), "eps");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).eps(nan)), "eps");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).q(0)), "q must");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).q(nan)), "q must");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).iterations(-1)), "iterations");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).manifold(Manifold::kEuclidean).weight_decay(-1)),
               "weight_decay");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).manifold(Manifold::kEuclidean).dampening(nan)),
               "dampening");
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).manifold(Manifold::kEuclidean).nesterov(true)), "nesterov");
  EXPECT_ERROR(CayleyAdam(a, CayleyAdamOptions(0.1).betas({1, 0.9})), "betas");
  EXPECT_ERROR(CayleyAdam(a, CayleyAdamOptions(0.1).betas({0.9, -0.1})), "betas");
  EXPECT_ERROR(CayleyAdam(a, CayleyAdamOptions(nan)), "lr");
  EXPECT_ERROR(stiefel::norm_from_string("two"), "two");
}

TEST(Options, ARateThatTurnsBadLaterIsCaughtBeforeTheStep) {
  const auto a = support::point({4, 9});
  const auto before = support::copy_of(a);
  CayleySGD optimizer({a}, CayleySGDOptions(0.1));
  support::randomize_gradients({a});
  optimizer.param_groups()[0].options().set_lr(std::nan(""));
  EXPECT_ERROR(optimizer.step(), "lr");
  EXPECT_TRUE(torch::equal(a, before));
}

TEST(Options, WeightDecayOnTheManifoldIsAnError) {
  const std::vector<Tensor> a{support::point({4, 9})};
  EXPECT_ERROR(CayleySGD(a, CayleySGDOptions(0.1).weight_decay(5e-4)), "weight_decay is 0.0005");
  EXPECT_ERROR(CayleyAdam(a, CayleyAdamOptions(0.1).weight_decay(5e-4)), "weight_decay");
  const auto decayed = CayleySGDOptions(0.1).weight_decay(5e-4);
  EXPECT_ERROR(CayleySGD(Groups{{a, decayed.clone()}}, CayleySGDOptions(0.1)), "weight_decay");
  const auto damped = CayleySGDOptions(0.1).momentum(0.9).dampening(0.1);
  EXPECT_ERROR(CayleySGD(Groups{{a, damped.clone()}}, CayleySGDOptions(0.1)), "dampening");
}

TEST(Start, FarFromTheManifoldIsRepairedWithAWarning) {
  Warnings warnings;
  auto off = torch::randn({4, 9}).requires_grad_();
  CayleySGD optimizer({off, support::point({4, 9}, at::kFloat)}, CayleySGDOptions(0.1));
  EXPECT_LT(support::defect(off), 1e-6);
  EXPECT_NE(warnings.text().find("1 of 2 parameters"), std::string::npos) << warnings.text();
  EXPECT_NE(warnings.text().find("[4, 9]"), std::string::npos) << warnings.text();
}

TEST(Start, NearOrHalfIsSilent) {
  Warnings warnings;
  CayleySGD optimizer({support::point({4, 9}, at::kFloat)}, CayleySGDOptions(0.1));
  CayleySGD low({torch::randn({4, 9}).to(at::kBFloat16).requires_grad_()}, CayleySGDOptions(0.1));
  EXPECT_EQ(warnings.text(), "");
}

TEST(Start, TooFarWithTheRepairOffSaysByHowMuch) {
  auto far = (support::point({4, 9}).detach() * 2).requires_grad_();  // ‖4I − I‖ = 6
  EXPECT_ERROR(CayleySGD({far}, CayleySGDOptions(0.1).orthonormalize_on_start(false)), "= 6");
  auto close = (support::point({4, 9}).detach() * 1.01).requires_grad_();
  CayleySGD fine({close}, CayleySGDOptions(0.1).orthonormalize_on_start(false));
  EXPECT_GT(support::defect(close), 0.03);
}

TEST(Start, RankDeficientSaysSo) {
  auto deficient = torch::randn({4, 9});
  deficient[2] = deficient[0];
  deficient.requires_grad_();
  EXPECT_ERROR(CayleySGD({deficient}, CayleySGDOptions(0.1)), "rank-deficient");
}

TEST(Start, WhatIsNoMatrixIsRefused) {
  EXPECT_ERROR(CayleySGD({torch::randn({4}).requires_grad_()}, CayleySGDOptions(0.1)),
               "two or more dimensions");
  EXPECT_ERROR(CayleySGD({torch::ones({4, 9}, at::kLong)}, CayleySGDOptions(0.1)), "floating-point");
}

/// A group beside one whose options are another optimiser's.
template <class Options>
Groups with_foreign_group(const Tensor& point, const Options& foreign) {
  Groups groups{{std::vector<Tensor>{point}}};
  groups.emplace_back(std::vector<Tensor>{torch::ones({3}).requires_grad_()},
                      std::make_unique<Options>(foreign));
  return groups;
}

TEST(Groups, OptionsOfAnotherOptimizerAreRefusedByTheirTypes) {
  const auto a = support::point({4, 9});
  for (const auto* type : {"torch::optim::SGDOptions", "stiefel::CayleySGDOptions"}) {
    EXPECT_ERROR(CayleySGD(with_foreign_group(a, torch::optim::SGDOptions(0.01)), CayleySGDOptions(0.1)),
                 type);
  }
  EXPECT_ERROR(CayleyAdam(with_foreign_group(a, CayleySGDOptions(0.1)), CayleyAdamOptions(0.1)),
               "stiefel::CayleySGDOptions");
  using Qr = stiefel::RetractionSGD<stiefel::Qr>;
  using Polar = stiefel::RetractionSGDOptions<stiefel::Polar>;
  EXPECT_ERROR(Qr(with_foreign_group(a, Polar(0.1)), Qr::Options(0.1)), "Polar");
  EXPECT_ERROR(stiefel::CurvilinearSearch<>(with_foreign_group(a, CayleySGDOptions(0.1)), 1e-3),
               "stiefel::CayleySGDOptions");
}

TEST(Groups, OptionsOfAnotherOptimizerAreRefusedLaterToo) {
  const auto a = support::point({4, 9});
  const auto make = [&] { return CayleySGD({a}, CayleySGDOptions(0.1)); };
  const torch::optim::OptimizerParamGroup foreign({torch::ones({3}).requires_grad_()},
                                                  std::make_unique<torch::optim::AdamOptions>(0.1));
  auto added = make();
  EXPECT_ERROR(added.add_param_group(foreign), "torch::optim::AdamOptions");
  EXPECT_EQ(added.param_groups().size(), 1u);
  auto behind = make();
  static_cast<torch::optim::Optimizer&>(behind).add_param_group(foreign);
  EXPECT_ERROR(behind.step(), "torch::optim::AdamOptions");
  auto exchanged = make();
  const auto stored = support::save(exchanged);
  exchanged.param_groups()[0].set_options(std::make_unique<CayleyAdamOptions>(0.1));
  support::randomize_gradients({a});
  const auto before = support::copy_of(a);
  EXPECT_ERROR(exchanged.step(), "stiefel::CayleyAdamOptions");
  EXPECT_ERROR(support::load(exchanged, stored), "stiefel::CayleyAdamOptions");
  EXPECT_ERROR(support::save(exchanged), "stiefel::CayleyAdamOptions");
  EXPECT_TRUE(torch::equal(a, before));
}

TEST(Gradients, SparseIsAnError) {
  const auto a = support::point({4, 9});
  CayleySGD optimizer({a}, CayleySGDOptions(0.1));
  a.mutable_grad() = torch::randn({4, 9}, at::kDouble).to_sparse();
  EXPECT_ERROR(optimizer.step(), "sparse");
}

TEST(Operators, ListsThatDoNotMatchAreRefused) {
  const auto x = support::point({4, 9}).detach();
  const auto m = torch::zeros_like(x);
  const auto skipped = torch::zeros({}, at::kLong);
  const auto rate = torch::full({}, 0.1, at::kDouble);
  EXPECT_ERROR(stiefel::cayley_sgd_({x}, {m, m}, {m}, skipped, rate, 0.9), "momenta");
  EXPECT_ERROR(stiefel::cayley_sgd_({x}, {}, {m}, skipped, rate, 0.9), "momenta");
  EXPECT_ERROR(stiefel::cayley_sgd_({x}, {m}, {}, skipped, rate, 0.9), "gradients");
  EXPECT_ERROR(stiefel::cayley_sgd_({x}, {m}, {m.to(at::kFloat)}, skipped, rate, 0.9), "gradients");
  EXPECT_ERROR(stiefel::cayley_sgd_({x, x.t()}, {m, m}, {m, m}, skipped, rate, 0.9), "[9, 4]");
  const auto whole = torch::ones({4, 4}, at::kLong);
  EXPECT_ERROR(stiefel::cayley_sgd_({whole}, {whole}, {whole}, skipped, rate, 0.9), "float");
  EXPECT_ERROR(stiefel::cayley_sgd_({x, x.to(at::kFloat)}, {m, m.to(at::kFloat)}, {m, m.to(at::kFloat)},
                                    skipped, rate, 0.9),
               "one type and device");
  EXPECT_ERROR(
      stiefel::cayley_sgd_({x.reshape({-1})}, {m.reshape({-1})}, {m.reshape({-1})}, skipped, rate, 0.9),
      "two or more dimensions");
}

TEST(Operators, WrongCountersRatesAndNumbersAreRefusedBeforeAnythingMoves) {
  const auto x = support::point({2, 4, 9}, at::kDouble, true).detach();
  const auto before = x.clone();
  const auto m = torch::zeros_like(x);
  const auto g = torch::randn_like(x);
  const auto skipped = torch::zeros({}, at::kLong);
  const auto rate = torch::full({}, 0.1, at::kDouble);
  const auto sgd = [&](const Tensor& skips, const Tensor& l, const Tensor& off = {}) {
    stiefel::cayley_sgd_({x}, {m}, {g}, skips, l, 0.9, {}, true, off);
  };
  EXPECT_ERROR(sgd(torch::zeros({}), rate), "skipped steps");
  EXPECT_ERROR(sgd(torch::zeros({2}, at::kLong), rate), "skipped steps");
  EXPECT_ERROR(sgd(skipped, torch::full({2}, 0.1)), "rate");
  EXPECT_ERROR(sgd(skipped, torch::ones({}, at::kLong)), "rate");
  EXPECT_ERROR(sgd(skipped, rate, torch::zeros({}, at::kInt)), "off the manifold");
  const auto adam = [&](const Tensor& v, const Tensor& k) {
    stiefel::cayley_adam_({x}, {m}, {v}, {k}, {g}, skipped, rate, 0.9, 0.99, {}, true);
  };
  const auto numbers = torch::zeros({2}, at::kDouble);
  EXPECT_ERROR(adam(torch::zeros({2}), numbers), "second moments");
  EXPECT_ERROR(adam(torch::zeros({3}, at::kDouble), numbers), "second moments");
  EXPECT_ERROR(adam(numbers, torch::zeros({2}, at::kLong)), "step counts");
  EXPECT_ERROR(adam(numbers, torch::zeros({}, at::kDouble)), "step counts");
  EXPECT_ERROR(adam(numbers, torch::zeros({4}, at::kDouble).slice(0, 0, 4, 2)), "step counts");
  EXPECT_ERROR(adam(numbers, numbers), "overlap");
  EXPECT_TRUE(torch::equal(x, before));
  EXPECT_EQ(m.abs().sum().item<double>(), 0);
  sgd(skipped, rate.to(at::kFloat));  // a float rate is one
  EXPECT_FALSE(torch::equal(x, before));
}

TEST(Operators, PointsThatOverlapAreRefused) {
  const auto skipped = torch::zeros({}, at::kLong);
  const auto rate = torch::full({}, 0.1, at::kDouble);
  const auto step = [&](const std::vector<Tensor>& points) {
    std::vector<Tensor> momenta, gradients;
    for (const auto& point : points) {
      momenta.push_back(torch::zeros(point.sizes(), point.options()));
      gradients.push_back(torch::randn(point.sizes(), point.options()));
    }
    stiefel::CayleyOptions literal;
    literal.polish = false;  // these are no orthonormal matrices
    stiefel::cayley_sgd_(points, momenta, gradients, skipped, rate, 0.9, literal);
  };
  const auto block = torch::randn({8, 20}, at::kDouble) * 0.1;
  EXPECT_ERROR(step({block, block}), "overlap");
  EXPECT_ERROR(step({block, block.t()}), "overlap");
  EXPECT_ERROR(step({block.narrow(0, 0, 5), block.narrow(0, 4, 4)}), "overlap");
  EXPECT_ERROR(step({block.narrow(1, 0, 10), block.narrow(1, 9, 10)}), "overlap");
  EXPECT_ERROR(step({block.narrow(1, 0, 10), block.narrow(0, 3, 1)}), "overlap");
  EXPECT_ERROR(step({block.narrow(0, 0, 1).expand({4, 20})}), "overlaps itself");
  EXPECT_ERROR(step({block.as_strided({4, 5}, {2, 1})}), "overlaps itself");
  // Halves side by side, halves above each other, and every other row share nothing.
  step({block.narrow(1, 0, 10), block.narrow(1, 10, 10)});
  step({block.narrow(0, 0, 4), block.narrow(0, 4, 4)});
  step({block.slice(0, 0, 8, 2), block.slice(0, 1, 8, 2)});
  const auto point = support::point({4, 9}).detach();
  EXPECT_ERROR(stiefel::cayley_sgd_({point}, {point}, {torch::randn_like(point)}, skipped, rate, 0.9),
               "overlap");
}

}  // namespace bad_input_test
