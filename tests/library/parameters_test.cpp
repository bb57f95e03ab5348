#include "tests/support.h"

// Which parameters go on the manifold.

namespace parameters_test {

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

using Names = std::vector<std::string>;

TEST(SplitParameters, TakesTheProjectionsOfAttention) {
  support::Warnings warnings;
  nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(16, 4));
  EXPECT_EQ(stiefel::split_parameters(*attention).manifold_names,
            (Names{"in_proj_weight", "out_proj.weight"}));
  nn::MultiheadAttention apart(nn::MultiheadAttentionOptions(16, 4).kdim(24).vdim(20));
  EXPECT_EQ(stiefel::split_parameters(*apart).manifold_names,
            (Names{"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"}));
  nn::TransformerEncoderLayer layer(nn::TransformerEncoderLayerOptions(16, 4).dim_feedforward(32));
  EXPECT_EQ(stiefel::split_parameters(*layer).manifold_names,
            (Names{"self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear2.weight"}));
  nn::Sequential classifier(layer, nn::Linear(16, 3));
  const auto split = stiefel::split_parameters(*classifier);
  EXPECT_EQ(split.manifold.size(), 3u);
  EXPECT_EQ(split.euclidean_names.back(), "1.bias");
  EXPECT_EQ(warnings.text(), "");
}

TEST(SplitParameters, TakesRecurrentWeightsFromHiddenToHidden) {
  support::Warnings warnings;
  nn::LSTM lstm(nn::LSTMOptions(3, 8).num_layers(2).bidirectional(true));
  EXPECT_EQ(stiefel::split_parameters(*lstm).manifold_names,
            (Names{"weight_hh_l0", "weight_hh_l0_reverse", "weight_hh_l1", "weight_hh_l1_reverse"}));
  EXPECT_EQ(stiefel::split_parameters(*nn::GRU(3, 8)).manifold_names, Names{"weight_hh_l0"});
  EXPECT_EQ(stiefel::split_parameters(*nn::RNN(3, 8)).manifold_names, Names{"weight_hh_l0"});
  EXPECT_EQ(stiefel::split_parameters(*nn::LSTMCell(3, 8)).manifold_names, Names{"weight_hh"});
  EXPECT_EQ(warnings.text(), "");
}

TEST(SplitParameters, RecurrentWeightsTrainOnTheManifold) {
  nn::LSTM lstm(3, 8);
  auto split = stiefel::split_parameters(*lstm);
  for (auto& weight : split.manifold) stiefel::init::haar_(weight);
  const auto free = stiefel::CayleySGDOptions(0.05).momentum(0.9).manifold(stiefel::Manifold::kEuclidean);
  stiefel::CayleySGD optimizer({{split.manifold}, {split.euclidean, free.clone()}},
                               stiefel::CayleySGDOptions(0.05).momentum(0.9));
  const auto x = torch::randn({10, 4, 3});
  double first = 0, last = 0;
  for (int step = 0; step < 50; ++step) {
    optimizer.zero_grad();
    const auto loss =
        torch::mse_loss(std::get<0>(lstm->forward(x)), x.slice(2, 0, 1).expand({10, 4, 8}).tanh());
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first);
  EXPECT_LT(support::defect(lstm->named_parameters()["weight_hh_l0"]), 1e-5);  // 32×8, columns
}

TEST(SplitParameters, SaysWhereItTakesNothing) {
  const auto warning_of = [](const nn::Module& module, const stiefel::ParameterPredicate& rule = nullptr) {
    support::Warnings warnings;
    EXPECT_TRUE(stiefel::split_parameters(module, rule).manifold.empty());
    return warnings.text();
  };
  nn::Linear one(8, 4);
  EXPECT_NE(warning_of(*one).find("taken for a classifier"), std::string::npos);
  nn::Sequential wrapped(nn::Flatten(), nn::Linear(8, 4));
  EXPECT_NE(warning_of(*wrapped).find("taken for a classifier"), std::string::npos);
  nn::Sequential tall(nn::Linear(4, 8), nn::Linear(2, 9));
  EXPECT_NE(warning_of(*tall).find("no convolution or linear layer"), std::string::npos);
  EXPECT_EQ(warning_of(*one, [](const stiefel::ParameterInfo&) { return false; }), "");  // asked for
  EXPECT_EQ(warning_of(*nn::ReLU()), "");                                                // nothing to take
  EXPECT_EQ(
      stiefel::split_parameters(*one, [](const auto& info) { return info.tensor.dim() == 2; }).manifold_names,
      Names{"weight"});
}

TEST(SplitParameters, FeedsAnOptimizerThatKeepsWeightsOrthonormal) {
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

}  // namespace parameters_test
