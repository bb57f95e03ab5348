#include "support.h"

// Which parameters go on the manifold.

namespace {

namespace nn = torch::nn;

struct NetImpl : nn::Module {
  NetImpl() {
    first = register_module("first", nn::Conv2d(nn::Conv2dOptions(3, 16, 3)));
    narrow = register_module("narrow", nn::Conv2d(nn::Conv2dOptions(1, 32, 3)));  // 32 > 9
    grouped = register_module("grouped", nn::Conv2d(nn::Conv2dOptions(16, 16, 3).groups(4)));
    transposed = register_module("transposed", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(16, 16, 3)));
    line = register_module("line", nn::Conv1d(nn::Conv1dOptions(8, 8, 3)));
    norm = register_module("norm", nn::BatchNorm2d(16));
    hidden = register_module("hidden", nn::Linear(64, 32));
    frozen = register_module("frozen", nn::Linear(64, 32));
    frozen->weight.requires_grad_(false);
    head = register_module("head", nn::Linear(32, 10));
  }
  nn::Conv2d first{nullptr}, narrow{nullptr}, grouped{nullptr};
  nn::ConvTranspose2d transposed{nullptr};
  nn::Conv1d line{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear hidden{nullptr}, frozen{nullptr}, head{nullptr};
};
TORCH_MODULE(Net);

TEST(SplitParameters, TakesWideConvolutionsAndLinearLayersButTheLast) {
  Net net;
  const auto split = stiefel::split_parameters(*net);
  EXPECT_EQ(split.manifold_names, (std::vector<std::string>{"first.weight", "line.weight", "hidden.weight"}));
  EXPECT_EQ(split.manifold.size() + split.euclidean.size(), net->parameters().size());
  EXPECT_EQ(split.euclidean.size(), split.euclidean_names.size());
  EXPECT_TRUE(split.manifold[0].is_same(net->first->weight));
}

TEST(SplitParameters, APredicateDecidesInstead) {
  Net net;
  const auto split = stiefel::split_parameters(*net, [](const stiefel::ParameterInfo& info) {
    return info.on_manifold ? info.name != "line.weight" : info.name == "narrow.weight";
  });
  EXPECT_EQ(split.manifold_names,
            (std::vector<std::string>{"first.weight", "narrow.weight", "hidden.weight"}));
}

TEST(SplitParameters, ListsASharedParameterOnce) {
  nn::Linear shared(8, 8);
  nn::Sequential net(shared, nn::Tanh(), shared, nn::Linear(8, 2));
  const auto split = stiefel::split_parameters(*net);
  EXPECT_EQ(split.manifold_names, std::vector<std::string>{"0.weight"});
  EXPECT_EQ(split.euclidean.size(), 3u);
}

TEST(SplitParameters, FeedsAnOptimiserThatKeepsWeightsOrthonormal) {
  nn::Sequential net(nn::Linear(20, 16), nn::Tanh(), nn::Linear(16, 1));
  auto split = stiefel::split_parameters(*net);
  for (auto& weight : split.manifold) stiefel::init::haar_(weight);
  const auto free = stiefel::CayleySGDOptions(0.05).momentum(0.9).manifold(stiefel::Manifold::kEuclidean);
  stiefel::CayleySGD optimizer({{split.manifold}, {split.euclidean, free.clone()}},
                               stiefel::CayleySGDOptions(0.05).momentum(0.9));
  const auto x = torch::randn({64, 20});
  const auto y = x.slice(1, 0, 1).sin();
  double first = 0;
  double last = 0;
  for (int step = 0; step < 300; ++step) {
    optimizer.zero_grad();
    const auto loss = torch::mse_loss(net->forward(x), y);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, 0.05 * first);
  EXPECT_LT(support::defect(split.manifold[0]), 5e-6 * 4);
}

}  // namespace
