#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include "models/classifier.h"

// The networks: sizes, shapes, and what goes on the manifold.

namespace models_test {

using stiefel::models::make_classifier;
using stiefel::models::parameter_count;

/// The weights of a Wide ResNet d-k, counted layer by layer: two per batch-norm channel, k² c_in c_out per
/// convolution, and the linear layer with its bias.
int64_t wide_resnet_count(int64_t d, int64_t k, int64_t channels, int64_t classes) {
  int64_t total = 9 * channels * 16;
  int64_t in = 16;
  for (int64_t group = 0; group < 3; ++group) {
    const int64_t out = (16 << group) * k;
    for (int64_t i = 0; i < (d - 4) / 6; ++i) {
      total += 2 * in + 9 * in * out + 2 * out + 9 * out * out;
      if (in != out || (group > 0 && i == 0)) total += in * out;
      in = out;
    }
  }
  return total + 2 * in + in * classes + classes;
}

TEST(Models, ParameterCountsAreTheLiteratures) {
  const auto count = [](const char* name, int64_t classes = 10) {
    return parameter_count(*make_classifier(name, {3, classes, 0}));
  };
  EXPECT_EQ(count("wrn-28-10"), 36479194);  // 36.5 M
  EXPECT_EQ(count("wrn-16-4"), 2748890);    // 2.7 M
  EXPECT_EQ(count("wrn-28-10"), wide_resnet_count(28, 10, 3, 10));
  EXPECT_EQ(count("wrn-16-4"), wide_resnet_count(16, 4, 3, 10));
  EXPECT_EQ(count("wrn-52-1"), wide_resnet_count(52, 1, 3, 10));
  EXPECT_EQ(count("wrn-16-4", 100), wide_resnet_count(16, 4, 3, 100));
  // VGG-16: 13 convolutions of 9·c_in·c_out, two per batch-norm channel, 512·10 + 10.
  EXPECT_EQ(count("vgg-16"), 14710464 + 2 * 4224 + 5130);
  EXPECT_EQ(count("vgg-13"), 9402048 + 2 * 2944 + 5130);
  EXPECT_EQ(count("vgg-19"), 20018880 + 2 * 5504 + 5130);
}

TEST(Models, MapImagesToScores) {
  for (const char* name : {"small", "vgg-13", "wrn-10-1", "wrn-16-2"}) {
    for (const int64_t channels : {1, 3}) {
      const auto net = make_classifier(name, {channels, 7, 0});
      const auto scores = net->forward(torch::randn({2, channels, 32, 32}));
      EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{2, 7})) << name;
      scores.sum().backward();
      for (const auto& item : net->named_parameters())
        EXPECT_TRUE(item.value().grad().defined()) << item.key();
    }
  }
}

using stiefel::Parametrization;
using stiefel::models::ConstrainedLayers;
using stiefel::nn::DecorrelatedBatchNorm2dImpl;
using stiefel::nn::ParametrizedConv2dImpl;

template <class Layer>
int64_t count_layers(const torch::nn::Module& net) {
  int64_t count = 0;
  for (const auto& module : net.modules()) count += module->as<Layer>() != nullptr;
  return count;
}

/// Scores for a small batch, and a gradient for every parameter.
void expect_trains(stiefel::models::Network& net, const std::string& what) {
  const auto scores = net.forward(torch::randn({4, 3, 32, 32}));
  EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{4, 7})) << what;
  scores.square().sum().backward();
  for (const auto& item : net.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << what << " " << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << what << " " << item.key();
  }
}

TEST(Models, EveryNetworkTakesParametrizedWeights) {
  const std::vector<std::pair<const char*, std::vector<Parametrization>>> cases{
      {"small",
       {Parametrization::kOmdsm, Parametrization::kMatrixExp, Parametrization::kCayley,
        Parametrization::kHouseholder}},
      {"wrn-10-1",
       {Parametrization::kOmdsm, Parametrization::kMatrixExp, Parametrization::kCayley,
        Parametrization::kHouseholder}},
      {"vgg-13", {Parametrization::kOmdsm}}};
  for (const auto& [name, kinds] : cases) {
    for (const auto kind : kinds) {
      const auto net = make_classifier(name, {3, 7, 0}, ConstrainedLayers({kind, 0, false}));
      const auto what = std::string(name) + " " + to_string(kind);
      expect_trains(*net, what);
      // OMDSM takes every convolution; the others those that could go on the manifold.
      const auto plain = make_classifier(name, {3, 7, 0});
      const auto expected = kind == Parametrization::kOmdsm
                                ? count_layers<torch::nn::Conv2dImpl>(*plain)
                                : static_cast<int64_t>(stiefel::split_parameters(*plain).manifold.size());
      EXPECT_EQ(count_layers<ParametrizedConv2dImpl>(*net), expected) << what;
      EXPECT_EQ(parameter_count(*net), parameter_count(*plain)) << what;
      for (const auto& module : net->modules()) {
        if (const auto* layer = module->as<ParametrizedConv2dImpl>()) {
          EXPECT_LT(layer->defect(), 1e-4) << what;
        }
      }
    }
  }
}

TEST(Models, EveryNetworkTakesDecorrelatedNormalization) {
  for (const char* name : {"small", "wrn-10-1", "vgg-13"}) {
    const auto net = make_classifier(name, {3, 7, 0}, ConstrainedLayers({std::nullopt, 0, true}));
    expect_trains(*net, name);
    EXPECT_EQ(count_layers<torch::nn::BatchNorm2dImpl>(*net), 0) << name;
    EXPECT_EQ(count_layers<DecorrelatedBatchNorm2dImpl>(*net),
              count_layers<torch::nn::BatchNorm2dImpl>(*make_classifier(name, {3, 7, 0})))
        << name;
  }
}

TEST(Models, OmdsmTakesItsGroups) {
  const auto net =
      make_classifier("small", {3, 7, 0}, ConstrainedLayers({Parametrization::kOmdsm, 16, false}));
  for (const auto& module : net->modules()) {
    if (const auto* layer = module->as<ParametrizedConv2dImpl>()) {
      EXPECT_EQ(layer->omdsm_options().group_size, 16);
    }
  }
}

TEST(Models, ConvolutionsGoOnTheManifoldAndTheHeadDoesNot) {
  const auto net = make_classifier("wrn-16-4", {3, 10, 0});
  const auto split = stiefel::split_parameters(*net);
  EXPECT_EQ(split.manifold.size(), 1 + 12u);  // the 1×1 shortcuts widen, so they have p > n
  for (const auto& name : split.manifold_names) EXPECT_EQ(name.find("head"), std::string::npos);
}

TEST(Models, DropoutActsInTrainingOnly) {
  torch::manual_seed(1);
  const auto net = make_classifier("wrn-10-1", {1, 10, 0.5});
  const auto x = torch::randn({2, 1, 32, 32});
  net->eval();
  EXPECT_TRUE(torch::equal(net->forward(x), net->forward(x)));
  net->train();
  EXPECT_FALSE(torch::equal(net->forward(x), net->forward(x)));
}

TEST(Models, BadNamesSayWhatThereIs) {
  const auto error = [](const std::string& name, double dropout = 0) {
    try {
      make_classifier(name, {3, 10, dropout});
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error("resnet-50").find("wrn-28-10"), std::string::npos);
  EXPECT_NE(error("vgg-11").find("13, 16 or 19"), std::string::npos);
  EXPECT_NE(error("wrn-17-4").find("6N + 4"), std::string::npos);
  EXPECT_NE(error("vgg-16", 0.3).find("dropout"), std::string::npos);
}

}  // namespace models_test
