#include "tests/support.h"

// Saving and loading: to stop and go on equals not to stop, bit for bit.

namespace archive_test {

using at::Tensor;
using stiefel::CayleyAdam;
using stiefel::CayleyAdamOptions;
using stiefel::CayleySGD;
using stiefel::CayleySGDOptions;
using stiefel::Manifold;
using support::copy_of;

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

std::vector<Tensor> some_parameters() {
  auto half = support::point({6, 10}, at::kFloat).detach().to(at::kBFloat16).requires_grad_();
  auto last = support::point({6, 3, 4, 4}, at::kFloat).detach().contiguous(at::MemoryFormat::ChannelsLast);
  return {support::point({5, 12}, at::kFloat), support::point({7, 7}, at::kComplexFloat),
          last.requires_grad_(), half, torch::randn({5, 3}).requires_grad_()};
}

Groups group(const std::vector<Tensor>& p, const torch::optim::OptimizerOptions& free) {
  return {{{p[0], p[1], p[2], p[3]}}, {{p[4]}, free.clone()}};
}

std::unique_ptr<stiefel::ManifoldOptimizer> make(bool adam, const std::vector<Tensor>& p) {
  if (adam) {
    const auto free = CayleyAdamOptions(0.01).manifold(Manifold::kEuclidean).weight_decay(1e-3);
    return std::make_unique<CayleyAdam>(group(p, free), CayleyAdamOptions(0.4).betas({0.8, 0.95}));
  }
  const auto free = CayleySGDOptions(0.01).manifold(Manifold::kEuclidean).momentum(0.9).weight_decay(1e-3);
  return std::make_unique<CayleySGD>(group(p, free), CayleySGDOptions(0.2).momentum(0.9).iterations(3));
}

void run(stiefel::ManifoldOptimizer& optimizer, const std::vector<Tensor>& parameters, int from, int to) {
  for (int step = from; step < to; ++step) {
    torch::manual_seed(100 + step);
    support::randomize_gradients(parameters);
    if (step == 3) parameters[0].mutable_grad()[0][0] = NAN;
    optimizer.step();
  }
}

TEST(Archive, ContinuingEqualsNotStopping) {
  for (const bool adam : {false, true}) {
    const auto whole = some_parameters();
    std::vector<Tensor> parted;
    for (const auto& parameter : whole) parted.push_back(copy_of(parameter));
    const auto straight = make(adam, whole);
    run(*straight, whole, 0, 20);

    std::string bytes;
    {
      const auto first = make(adam, parted);
      run(*first, parted, 0, 8);
      for (auto& options : first->param_groups()) options.options().set_lr(options.options().get_lr());
      bytes = support::save(*first);
    }
    std::vector<Tensor> resumed;
    for (const auto& parameter : parted) resumed.push_back(copy_of(parameter));
    const auto second = make(adam, resumed);
    support::load(*second, bytes);
    EXPECT_EQ(second->skipped_steps(), 1);
    run(*second, resumed, 8, 20);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(torch::equal(whole[i], resumed[i])) << i;
    EXPECT_EQ(second->skipped_steps(), straight->skipped_steps());
  }
}

TEST(Archive, RestoresTheOptionsOfEachGroup) {
  const auto a = support::point({4, 9});
  const auto b = torch::randn({3}, at::kDouble).requires_grad_();
  const auto free =
      CayleySGDOptions(0.03).manifold(Manifold::kEuclidean).nesterov(true).momentum(0.7).weight_decay(0.1);
  CayleySGD first(Groups{{{a}}, {{b}, free.clone()}}, CayleySGDOptions(0.2)
                                                          .momentum(0.8)
                                                          .q(0.4)
                                                          .eps(1e-6)
                                                          .iterations(4)
                                                          .norm(stiefel::Norm::kSpectral)
                                                          .polish(false)
                                                          .orthonormalize_on_start(false));
  first.param_groups()[0].options().set_lr(0.04);
  const auto plain = CayleySGDOptions(1).manifold(Manifold::kEuclidean);
  CayleySGD second(Groups{{{a}}, {{b}, plain.clone()}}, CayleySGDOptions(1));
  support::load(second, support::save(first));
  const auto& one = static_cast<const CayleySGDOptions&>(second.param_groups()[0].options());
  EXPECT_EQ(one.lr(), 0.04);
  EXPECT_EQ(one.momentum(), 0.8);
  EXPECT_EQ(one.q(), 0.4);
  EXPECT_EQ(one.eps(), 1e-6);
  EXPECT_EQ(one.iterations(), 4);
  EXPECT_EQ(one.norm(), stiefel::Norm::kSpectral);
  EXPECT_FALSE(one.polish());
  EXPECT_FALSE(one.orthonormalize_on_start());
  const auto& two = static_cast<const CayleySGDOptions&>(second.param_groups()[1].options());
  EXPECT_EQ(two.lr(), 0.03);
  EXPECT_EQ(two.manifold(), Manifold::kEuclidean);
  EXPECT_TRUE(two.nesterov());
  EXPECT_EQ(two.weight_decay(), 0.1);
}

TEST(Archive, GoesThroughTorchSaveAndLoad) {
  const auto a = support::point({4, 9});
  const auto b = copy_of(a);
  CayleyAdam first({a}, CayleyAdamOptions(0.1));
  support::randomize_gradients({a});
  first.step();
  std::stringstream stream;
  torch::save(first, stream);
  b.detach().copy_(a.detach());
  CayleyAdam second({b}, CayleyAdamOptions(0.3));
  torch::load(second, stream);
  support::randomize_gradients({a});
  support::set_gradient(b, a.grad());
  first.step();
  second.step();
  EXPECT_TRUE(torch::equal(a, b));
}

TEST(Archive, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const auto a = support::point({4, 9});
  const auto b = support::point({5, 9});
  CayleySGD one({a}, CayleySGDOptions(0.1).momentum(0.9));
  support::randomize_gradients({a});
  one.step();
  const auto bytes = support::save(one);

  CayleySGD other({b}, CayleySGDOptions(0.7));
  EXPECT_ERROR(support::load(other, bytes), "[4, 9]");
  EXPECT_EQ(other.param_groups()[0].options().get_lr(), 0.7);
  CayleySGD two({a, copy_of(a)}, CayleySGDOptions(0.1));
  EXPECT_ERROR(support::load(two, bytes), "1 parameters");
  CayleyAdam adam({a}, CayleyAdamOptions(0.1));
  EXPECT_ERROR(support::load(adam, bytes), "CayleySGD");
  torch::optim::SGD plain({copy_of(a)}, torch::optim::SGDOptions(0.1));
  EXPECT_ERROR(support::load(one, support::save(plain)), "stiefel_optimizer");
}

}  // namespace archive_test
