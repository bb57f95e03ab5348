#include "retraction_cases.h"

// The curvilinear search beside other groups, saved and loaded, and given what it cannot use.

namespace search_input_test {

using at::Tensor;
using cases::Groups;
using stiefel::CurvilinearSearch;
using stiefel::Manifold;
using stiefel::SearchOptions;
using stiefel::WenYin;
using support::copy_of;
using Options = stiefel::RetractionSGDOptions<WenYin>;

Options free_options(double lr) { return Options(lr).manifold(Manifold::kEuclidean); }

/// ‖T − X diag(c)‖² for an X on the manifold and a free c, least at T's own: 0.
struct Scaled {
  Tensor target = support::point({10, 3}).detach() * torch::tensor({2.0, 3.0, 4.0}, at::kDouble);
  Tensor x = support::point({10, 3});
  Tensor c = torch::ones({3}, at::kDouble).requires_grad_();

  std::unique_ptr<CurvilinearSearch<>> search(double lr) const {
    return std::make_unique<CurvilinearSearch<>>(Groups{{{x}}, {{c}, free_options(lr).clone()}}, Options(lr));
  }
  double step(CurvilinearSearch<>& search) const {
    return search
        .step([&] {
          search.zero_grad();
          auto loss = (target - x * c).square().sum();
          loss.backward();
          return loss;
        })
        .item<double>();
  }
};

/// One number of an archive.
double number_in(const std::string& bytes, const char* key) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  c10::IValue value;
  archive.read(key, value);
  return value.toDouble();
}

TEST(CurvilinearSearchGroups, AEuclideanOneTakesPart) {
  const Scaled problem;
  const auto search = problem.search(1e-3);
  double value = 0;
  for (int step = 0; step < 150; ++step) value = problem.step(*search);
  EXPECT_LT(value, 1e-10);
  EXPECT_LT(support::defect(problem.x), 1e-12);
}

TEST(CurvilinearSearchArchive, ContinuingEqualsNotStopping) {
  const Scaled whole;
  Scaled parted = whole;
  parted.x = copy_of(whole.x);
  parted.c = copy_of(whole.c);
  const auto straight = whole.search(1e-3);
  for (int step = 0; step < 21; ++step) whole.step(*straight);

  const auto first = parted.search(1e-3);
  for (int step = 0; step < 9; ++step) parted.step(*first);
  Scaled resumed = parted;
  resumed.x = copy_of(parted.x);
  resumed.c = copy_of(parted.c);
  const auto second = resumed.search(0.7);
  support::load(*second, support::save(*first));
  for (int step = 9; step < 21; ++step) resumed.step(*second);
  EXPECT_TRUE(torch::equal(whole.x, resumed.x));
  EXPECT_TRUE(torch::equal(whole.c, resumed.c));
  EXPECT_EQ(straight->param_groups()[0].options().get_lr(), second->param_groups()[0].options().get_lr());
  // C and Q show in a trajectory only where they tip a decision.
  for (const char* key : {"search_reference", "search_weight"}) {
    EXPECT_EQ(number_in(support::save(*straight), key), number_in(support::save(*second), key)) << key;
  }

  // Nor is it an archive of the plain optimiser.
  stiefel::RetractionSGD<WenYin> plain(Groups{{{whole.x}}, {{whole.c}, free_options(1).clone()}}, Options(1));
  EXPECT_ERROR(support::load(plain, support::save(*first)), "CurvilinearSearch wen-yin");
}

TEST(CurvilinearSearchInput, WhatItCannotUseIsNamed) {
  const auto x = support::point({9, 3});
  CurvilinearSearch<> search({x}, Options(1e-3));
  EXPECT_ERROR(static_cast<torch::optim::Optimizer&>(search).step(), "closure");
  EXPECT_ERROR(CurvilinearSearch<>({x}, Options(1e-3).momentum(0.9)), "momentum");
  const auto c = torch::ones({3}, at::kDouble).requires_grad_();
  const auto decays = free_options(1).weight_decay(0.1);
  EXPECT_ERROR(CurvilinearSearch<>(Groups{{{c}, decays.clone()}}, Options(1)), "weight_decay");
  const auto half = support::point({9, 3}, at::kFloat).detach().to(at::kHalf).requires_grad_();
  CurvilinearSearch<> reduced({half}, Options(1));
  const auto closure = [&] {
    support::set_gradient(half, torch::ones_like(half));
    return torch::ones({});
  };
  EXPECT_ERROR(reduced.step(closure), "Half");

  const auto with = [&](const std::function<void(SearchOptions&)>& change) {
    SearchOptions options;
    change(options);
    CurvilinearSearch<>({x}, Options(1e-3), options);
  };
  EXPECT_ERROR(with([](SearchOptions& o) { o.rho = 1; }), "rho");
  EXPECT_ERROR(with([](SearchOptions& o) { o.rho = 0; }), "rho");
  EXPECT_ERROR(with([](SearchOptions& o) { o.shrink = 1; }), "shrink");
  EXPECT_ERROR(with([](SearchOptions& o) { o.memory = 1; }), "memory");
  EXPECT_ERROR(with([](SearchOptions& o) { o.tries = 0; }), "tries");
  EXPECT_ERROR(with([](SearchOptions& o) { o.least = 2, o.most = 1; }), "bounds");
}

TEST(CurvilinearSearchInput, NothingMovesWhereNothingSlopes) {
  const auto x = support::point({9, 3});
  const auto start = copy_of(x);
  CurvilinearSearch<> search({x}, Options(1));
  EXPECT_EQ(search.step([&] { return torch::ones({}); }).item<double>(), 1) << "no gradient at all";
  search.step([&] {
    support::set_gradient(x, torch::zeros_like(x));
    return torch::ones({});
  });
  EXPECT_TRUE(torch::equal(x, start));
}

TEST(CurvilinearSearchInput, AGradientThatGoesMissingOnTheWayIsBorne) {
  const auto x = support::point({9, 3});
  const auto y = support::point({9, 3});
  CurvilinearSearch<> search({x, y}, Options(0.01));
  int count = 0;
  search.step([&] {
    ++count;
    support::set_gradient(x, torch::ones_like(x));
    y.mutable_grad() = count == 1 ? torch::ones_like(y) : Tensor();
    return torch::full({}, 1.0 / count, at::kDouble);
  });
  EXPECT_EQ(count, 2);
  EXPECT_EQ(search.param_groups()[0].options().get_lr(), 0.01);
}

}  // namespace search_input_test
