#include "models/lipschitz_net.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "models/lipschitz_layers.h"

// Networks whose scores never move further than the image: every layer against its definition, and pairs of
// inputs that gradient ascent pulls apart as far as it can.

namespace lipschitz_net_test {

using namespace stiefel::models;
using Function = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor lengths(const at::Tensor& x) { return x.flatten(1).norm(2, 1); }

/// ‖f(a) − f(b)‖/‖a − b‖ of each pair.
at::Tensor ratios(const Function& f, const at::Tensor& a, const at::Tensor& b) {
  return lengths(f(a) - f(b)) / lengths(a - b);
}

/// The largest ratio of random pairs near and far, and of those that ascent makes of them.
double largest_ratio(const Function& f, at::IntArrayRef item) {
  torch::manual_seed(3);
  std::vector<int64_t> sizes(item.begin(), item.end());
  sizes.insert(sizes.begin(), 6);
  double largest = 0;
  for (const double distance : {1e-3, 0.3, 10.0}) {
    auto a = torch::randn(sizes, torch::kDouble);
    auto b = a + distance * torch::randn(sizes, torch::kDouble);
    const auto look = [&] { largest = std::max(largest, ratios(f, a, b).max().item<double>()); };
    look();
    for (int i = 0; i < 60; ++i) {
      a.requires_grad_(true), b.requires_grad_(true);
      ratios(f, a, b).log().sum().backward();
      const auto ga = a.grad(), gb = b.grad();
      a = a.detach(), b = b.detach();
      // Steps as long as the pair is apart, so that near ones turn as fast as far ones.
      // Steps a fifth as long as the pair is apart, so that near ones turn as fast as far ones.
      std::vector<int64_t> shape(sizes.size(), 1);
      shape[0] = a.size(0);
      const auto step = (0.2 * lengths(a - b) / (lengths(ga) + lengths(gb) + 1e-30)).view(shape);
      a = a + step * ga;
      b = b + step * gb;
      look();
    }
  }
  return largest;
}

constexpr double kRounding = 1e-11;

TEST(LipschitzLayers, AscentFindsAWeightThatStretches) {
  auto weight = torch::empty({6, 10}, torch::kDouble);
  stiefel::init::haar_(weight);
  const auto q = weight.clone();
  weight[2] *= 1.02;
  const double found = largest_ratio([&](const at::Tensor& x) { return fold(at::linear(x, weight)); }, {10});
  EXPECT_GT(found, 1.015) << "the search is too weak to show anything";
  EXPECT_LE(found, 1.02 + kRounding);
  EXPECT_LE(largest_ratio([&](const at::Tensor& x) { return fold(at::linear(x, q)); }, {10}), 1 + kRounding);
}

TEST(LipschitzLayers, FoldTakesTheAbsoluteValueOfTheFirstHalf) {
  for (const int64_t channels : {2, 7, 8}) {
    const auto x = torch::randn({3, channels, 2, 2}, torch::kDouble);
    auto expected = x.clone();
    for (int64_t c = 0; c < channels / 2; ++c) expected.select(1, c).abs_();
    EXPECT_TRUE(at::equal(fold(x), expected));
    EXPECT_TRUE(at::allclose(lengths(fold(x)), lengths(x), 1e-14));
  }
  EXPECT_LE(largest_ratio(fold, {9}), 1 + kRounding);
}

TEST(LipschitzLayers, FoldIsMaxMinInTurnedChannels) {
  // Q(|u|, v) with u = (a − b)/√2, v = (a + b)/√2 and the same turn back.
  const auto a = torch::randn({50, 1}, torch::kDouble), b = torch::randn({50, 1}, torch::kDouble);
  const auto folded = fold(at::cat({a - b, a + b}, 1) / std::sqrt(2.0));
  const auto u = folded.narrow(1, 0, 1), v = folded.narrow(1, 1, 1);
  EXPECT_TRUE(at::allclose((v + u) / std::sqrt(2.0), at::maximum(a, b), 1e-13));
  EXPECT_TRUE(at::allclose((v - u) / std::sqrt(2.0), at::minimum(a, b), 1e-13));
}

/// The definition, a number at a time: where each number of a shifted image comes from.
at::Tensor shifted_by_definition(const at::Tensor& x) {
  auto result = x.clone();
  const int64_t channels = x.size(1), height = x.size(2), width = x.size(3);
  const auto from = x.accessor<double, 4>();
  auto to = result.accessor<double, 4>();
  const int64_t down[] = {0, 0, 1, 0, -1, 0, 0, 0}, right[] = {0, 0, 0, 1, 0, -1, 0, 0};
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      const auto group = c / (channels / 8);
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t z = 0; z < width; ++z) {
          to[i][c][(y + down[group] + height) % height][(z + right[group] + width) % width] =
              from[i][c][y][z];
        }
      }
    }
  }
  return result;
}

TEST(LipschitzLayers, ShiftMovesAnEighthOfTheChannelsEachWay) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto x = torch::randn({2, 16, 4, 5}, torch::kDouble).contiguous(format);
    const auto shifted = shift(x);
    EXPECT_TRUE(at::equal(shifted, shifted_by_definition(x)));
    EXPECT_EQ(shifted.suggest_memory_format(), format) << "a layout that changes costs a copy per layer";
    EXPECT_TRUE(at::equal(fold_and_shift(x), shifted_by_definition(fold(x))));
    EXPECT_EQ(fold_and_shift(x).suggest_memory_format(), format);
  }
  EXPECT_NEAR(largest_ratio(shift, {8, 3, 3}), 1, kRounding);
  EXPECT_LE(largest_ratio(fold_and_shift, {8, 3, 3}), 1 + kRounding);
  EXPECT_THROW(shift(torch::zeros({1, 12, 2, 2})), c10::Error);
}

TEST(LipschitzLayers, SpaceToDepthKeepsEveryNumber) {
  const auto x = torch::randn({2, 3, 8, 8}, torch::kDouble);
  const auto deep = space_to_depth(x, 4);
  ASSERT_EQ(deep.sizes(), (std::vector<int64_t>{2, 48, 2, 2}));
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < 8; ++y) {
      for (int64_t z = 0; z < 8; ++z) {
        EXPECT_TRUE(at::equal(deep.select(1, c * 16 + y % 4 * 4 + z % 4).select(1, y / 4).select(1, z / 4),
                              x.select(1, c).select(1, y).select(1, z)));
      }
    }
  }
  EXPECT_NEAR(largest_ratio([](const at::Tensor& t) { return space_to_depth(t, 2); }, {2, 4, 4}), 1,
              kRounding);
}

TEST(LipschitzLayers, FoldAndShiftHaveExactGradients) {
  const auto x = torch::randn({1, 8, 3, 3}, torch::kDouble).requires_grad_(true);
  const auto weights = torch::randn({1, 8, 3, 3}, torch::kDouble);
  (fold_and_shift(x) * weights).sum().backward();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto moved = [&](double by) {
      auto y = x.detach().clone();
      y.view(-1)[i] += by;
      return (fold_and_shift(y) * weights).sum().item<double>();
    };
    EXPECT_NEAR(x.grad().view(-1)[i].item<double>(), (moved(1e-6) - moved(-1e-6)) / 2e-6, 1e-7) << i;
  }
}

/// A network in double with biases that are not zero.
std::shared_ptr<LipschitzNetwork> sample(const std::string& name, const Shape& shape) {
  torch::manual_seed(5);
  auto net = make_lipschitz(name, shape);
  net->to(torch::kDouble);
  net->place_on_manifold();  // again, orthonormal in double
  const torch::NoGradGuard no_grad;
  for (const auto& mixing : net->mixings()) at::Tensor(mixing.bias).normal_(0, 0.3);
  return net;
}

TEST(LipschitzNet, EveryMixingIsAnIsometryOrAContraction) {
  const auto net = sample("lip-3-32", {1, 10, 0});
  int64_t tall = 0, wide = 0;
  for (const auto& mixing : net->mixings()) {
    const auto p = mixing.weight.size(0), n = mixing.weight.numel() / p;
    (p > n ? tall : wide) += 1;
    const Function mix = [&](const at::Tensor& x) {
      return mixing.weight.dim() == 4 ? at::conv2d(x, mixing.weight, mixing.bias)
                                      : at::linear(x, mixing.weight, mixing.bias);
    };
    const auto item = mixing.weight.dim() == 4 ? std::vector<int64_t>{n, 2, 2} : std::vector<int64_t>{n};
    const double found = largest_ratio(mix, item);
    EXPECT_LE(found, 1 + kRounding) << p << "x" << n;
    EXPECT_GT(found, 1 - 1e-3) << p << "x" << n << ": the search finds the directions that are kept";
  }
  EXPECT_EQ(tall, 1) << "from 16 channels to 32";
  EXPECT_EQ(wide, 6);
}

TEST(LipschitzNet, NeverTakesTwoImagesFurtherApart) {
  for (const auto& [name, channels] : std::vector<std::pair<std::string, int64_t>>{{"lip-mlp-4x24", 1},
                                                                                   {"lip-2-16", 1},
                                                                                   {"lip-3-64", 3},
                                                                                   {"lip-2-8", 3},
                                                                                   {"lip-2-8-2", 1},
                                                                                   {"lip-1-8-8", 3}}) {
    const auto net = sample(name, {channels, 7, 0});
    const double found =
        largest_ratio([&](const at::Tensor& x) { return net->forward(x); }, {channels, 32, 32});
    EXPECT_LE(found, 1 + kRounding) << name;
    EXPECT_GT(found, 0.5) << name << ": a bound that is far from the truth would certify little";
  }
}

TEST(LipschitzNet, EveryMatrixGoesOnTheManifoldAndStartsThere) {
  for (const char* name : {"lip-mlp-2x16", "lip-2-16"}) {
    const auto net = make_classifier(name, {3, 7, 0});
    const auto split = net->split();
    for (const auto& weight : split.manifold) {
      EXPECT_GE(weight.dim(), 2);
      EXPECT_LT(stiefel::defect(weight).item<double>(), 1e-5) << name;
    }
    for (const auto& bias : split.euclidean) EXPECT_EQ(bias.abs().max().item<double>(), 0) << name;
    const auto mixings = dynamic_cast<LipschitzNetwork&>(*net).mixings();
    EXPECT_EQ(mixings.size(), split.manifold.size());
    EXPECT_EQ(mixings.back().weight.size(0), 7) << "the last one gives the scores";
    std::set<const void*> on_manifold;
    for (const auto& weight : split.manifold) on_manifold.insert(weight.unsafeGetTensorImpl());
    for (const auto& mixing : mixings) EXPECT_EQ(on_manifold.count(mixing.weight.unsafeGetTensorImpl()), 1U);
  }
}

TEST(LipschitzNet, HasTheLayersOfItsName) {
  // By hand: 48→16, 16→16 at 8×8; 256→16 at 2×2; 64→16, 16→16; 16→10. Weights and biases.
  EXPECT_EQ(parameter_count(*make_classifier("lip-2-16", {3, 10, 0})),
            48 * 16 + 16 * 16 + 256 * 16 + 64 * 16 + 16 * 16 + 16 * 10 + 5 * 16 + 10);
  // With patches of 2, 12→16 at 16×16 and 4×4 squares after the pool.
  EXPECT_EQ(parameter_count(*make_classifier("lip-2-16-2", {3, 10, 0})),
            12 * 16 + 16 * 16 + 256 * 16 + 256 * 16 + 16 * 16 + 16 * 10 + 5 * 16 + 10);
  EXPECT_EQ(parameter_count(*make_classifier("lip-mlp-3x20", {1, 10, 0})),
            1024 * 20 + 20 * 20 * 2 + 20 * 10 + 3 * 20 + 10);
  for (const char* name : {"lip-mlp-2x16", "lip-2-16", "lip-1-8-1"}) {
    const auto net = make_classifier(name, {3, 7, 0});
    const auto images = torch::randn({4, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
    const auto scores = net->forward(images);
    EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{4, 7})) << name;
    EXPECT_TRUE(at::allclose(scores, net->forward(images.contiguous()), 1e-4, 1e-5)) << name;
    scores.square().sum().backward();
    for (const auto& item : net->named_parameters()) {
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << name << " " << item.key();
    }
  }
}

/// A bias is scaled so that it moves an item by its own length.
TEST(LipschitzNet, ABiasMovesAnItemByItsLength) {
  const auto net = sample("lip-1-16", {1, 10, 0});
  const auto bias = net->named_parameters()["mixing0.bias"];
  const auto image = torch::zeros({1, 1, 32, 32}, torch::kDouble);
  const torch::NoGradGuard no_grad;
  const auto weight = net->named_parameters()["mixing0.weight"];
  const auto added = at::conv2d(space_to_depth(image, 4), weight, bias / 8.0);
  EXPECT_NEAR(added.norm().item<double>(), bias.norm().item<double>(), 1e-12);
  const auto before = net->forward(image);
  bias.mul_(2);
  EXPECT_LE((net->forward(image) - before).norm().item<double>(), bias.norm().item<double>() / 2 + kRounding);
}

TEST(LipschitzNet, TakesAutocast) {
  const auto net = make_classifier("lip-2-16", {3, 10, 0});
  const torch::NoGradGuard no_grad;
  const auto images = torch::randn({4, 3, 32, 32});
  const auto exact = net->forward(images);
#if TORCH_VERSION_MAJOR >= 2
  at::autocast::set_autocast_enabled(at::kCPU, true);
#else
  at::autocast::set_cpu_enabled(true);
#endif
  const auto rounded = net->forward(images);
  at::autocast::clear_cache();
#if TORCH_VERSION_MAJOR >= 2
  at::autocast::set_autocast_enabled(at::kCPU, false);
#else
  at::autocast::set_cpu_enabled(false);
#endif
  EXPECT_EQ(rounded.scalar_type(), at::kBFloat16) << "the casts go through all layers";
  EXPECT_LT((rounded.to(at::kFloat) - exact).abs().max().item<double>(), 0.3);
}

TEST(LipschitzNet, BadNamesSayWhatThereIs) {
  const auto error = [](const std::string& name) {
    try {
      make_classifier(name, {3, 10, 0});
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error("lip-4-20").find("multiple of 8; got 20"), std::string::npos);
  EXPECT_NE(error("lip-0-16").find("lip-6-64"), std::string::npos);
  EXPECT_NE(error("lip-mlp-8").find("lip-mlp-8x128"), std::string::npos);
  EXPECT_TRUE(is_lipschitz("lip-6-64") && is_lipschitz("lip-6-64-2") && is_lipschitz("lip-mlp-8x128"));
  EXPECT_FALSE(is_lipschitz("small") || is_lipschitz("lip-mlp-8x") || is_lipschitz("lip-6-64-3"));
}

}  // namespace lipschitz_net_test
