#include "tests/support.h"

// The layers whose weight is a function of a proxy, as a user meets them.

namespace parametrized_layers_test {

using at::Tensor;
using stiefel::Parametrization;
using stiefel::nn::ParametrizedConv2d;
using stiefel::nn::ParametrizedLinear;

constexpr Parametrization kAll[] = {Parametrization::kOmdsm, Parametrization::kMatrixExp,
                                    Parametrization::kCayley, Parametrization::kHouseholder};

/// ‖KKᴴ − I‖_F of the rows of a wide weight.
double row_defect(const Tensor& weight) {
  const auto k = weight.detach().flatten(1).to(at::kDouble);
  return (k.mm(k.t()) - torch::eye(k.size(0), at::kDouble)).norm().item<double>();
}

TEST(ParametrizedLayers, ComputeWhatThePlainLayerWithTheirWeightComputes) {
  for (const auto map : kAll) {
    const auto options = torch::nn::Conv2dOptions(3, 8, {3, 2}).stride(2).padding({1, 0}).dilation(1);
    ParametrizedConv2d layer(options, map);
    torch::nn::Conv2d plain(options);
    const auto x = torch::randn({2, 3, 9, 8});
    {
      const torch::NoGradGuard no_grad;
      plain->weight.copy_(layer->weight());
      plain->bias.copy_(layer->bias);
    }
    EXPECT_LT(support::distance(layer->forward(x), plain->forward(x)), 1e-6) << to_string(map);
    EXPECT_LT(row_defect(layer->weight()), 1e-5);
    EXPECT_NEAR(layer->defect(), row_defect(layer->weight()), 1e-9);

    ParametrizedLinear linear(torch::nn::LinearOptions(12, 5).bias(false), map);
    const auto v = torch::randn({4, 12});
    EXPECT_FALSE(linear->bias.defined());
    EXPECT_LT(support::distance(linear->forward(v), v.mm(linear->weight().t())), 1e-6);
    EXPECT_LT(row_defect(linear->weight()), 1e-5);
  }
}

TEST(ParametrizedLayers, TakePaddingByName) {
  ParametrizedConv2d layer(torch::nn::Conv2dOptions(2, 4, 3).padding(torch::kSame));
  EXPECT_EQ(layer->forward(torch::randn({1, 2, 7, 7})).sizes(), at::IntArrayRef({1, 4, 7, 7}));
}

TEST(ParametrizedLayers, DefectIsTheWorstGroupOfOmdsm) {
  for (int draw = 0; draw < 8; ++draw) {                       // so that each group is the worst in turn
    ParametrizedLinear tall(torch::nn::LinearOptions(6, 20));  // 20 rows of 6 entries: groups of 5
    const auto k = tall->weight();
    double worst = 0;
    for (const int64_t row : {0, 5, 10, 15}) worst = std::max(worst, row_defect(k.narrow(0, row, 5)));
    EXPECT_NEAR(tall->defect(), worst, 1e-12);
    EXPECT_LT(worst, 1e-5);
  }
  ParametrizedLinear grouped(torch::nn::LinearOptions(30, 8), Parametrization::kOmdsm,
                             stiefel::OmdsmOptions{4});
  EXPECT_LT(grouped->defect(), 1e-5);
  EXPECT_GT(row_defect(grouped->weight()), 0.1);  // groups are not orthogonal to each other
}

TEST(ParametrizedLayers, WeightsAreDrawnUniformly) {
  // Of a Haar matrix, an entry has mean 0 and variance 1/n.
  for (const auto map : kAll) {
    auto sum = torch::zeros({2, 5});
    auto squares = torch::zeros({2, 5});
    for (int i = 0; i < 600; ++i) {
      const torch::NoGradGuard no_grad;
      const auto k = ParametrizedLinear(torch::nn::LinearOptions(5, 2).bias(false), map)->weight();
      sum += k;
      squares += k.square();
    }
    EXPECT_LT((sum / 600).abs().max().item<double>(), 0.09) << to_string(map);
    EXPECT_LT((squares / 600 - 0.2).abs().max().item<double>(), 0.05) << to_string(map);
  }
}

TEST(ParametrizedLayers, StartFromAGivenWeight) {
  for (const auto map : kAll) {
    ParametrizedConv2d layer(torch::nn::Conv2dOptions(4, 6, 3), map);
    auto wanted = torch::empty({6, 4, 3, 3});
    stiefel::init::haar_(wanted);
    if (map == Parametrization::kOmdsm) wanted = stiefel::omdsm(wanted);  // rows of mean zero
    layer->set_weight(wanted);
    EXPECT_LT(support::distance(layer->weight(), wanted), 2e-6) << to_string(map);
    EXPECT_ERROR(layer->set_weight(torch::eye(6)), "[6, 4, 3, 3]");
  }
}

/// Nothing stale: the weight follows the proxy after a step, a load and a copy, in evaluation too.
TEST(ParametrizedLayers, TheWeightFollowsTheProxyInEvaluation) {
  for (const auto map : kAll) {
    ParametrizedLinear layer(torch::nn::LinearOptions(7, 3), map);
    layer->eval();
    const torch::NoGradGuard no_grad;
    const auto x = torch::randn({2, 7});
    const auto before = layer->forward(x);
    layer->proxy.add_(torch::randn_like(layer->proxy), 0.5);
    EXPECT_GT(support::distance(layer->forward(x), before), 1e-2) << to_string(map);
    EXPECT_LT(support::distance(layer->forward(x), x.mm(layer->weight().t()) + layer->bias), 1e-6);
  }
}

TEST(ParametrizedLayers, SaveLoadAndCloneKeepTheWeight) {
  for (const auto map : kAll) {
    ParametrizedConv2d layer(torch::nn::Conv2dOptions(3, 5, 3), map);
    {
      const torch::NoGradGuard no_grad;
      layer->proxy.add_(torch::randn_like(layer->proxy), 0.1);
    }
    std::stringstream stream;
    torch::save(layer, stream);
    ParametrizedConv2d other(torch::nn::Conv2dOptions(3, 5, 3), map);
    EXPECT_GT(support::distance(other->weight(), layer->weight()), 1e-2);
    torch::load(other, stream);
    EXPECT_EQ(support::distance(other->weight(), layer->weight()), 0) << to_string(map);
    const auto copy = std::dynamic_pointer_cast<stiefel::nn::ParametrizedConv2dImpl>(layer->clone());
    EXPECT_EQ(support::distance(copy->weight(), layer->weight()), 0);
    layer->to(at::kDouble);
    EXPECT_LT(support::distance(layer->weight(), other->weight().to(at::kDouble)), 1e-5);
  }
}

TEST(ParametrizedLayers, ChannelsLastWeightsStaySo) {
  for (const auto map : kAll) {
    ParametrizedConv2d layer(torch::nn::Conv2dOptions(4, 6, 3), map);
    const auto x = torch::randn({2, 4, 5, 5});
    const auto plain = layer->forward(x);
    layer->proxy.set_data(layer->proxy.contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(layer->weight().is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_LT(support::distance(layer->forward(x.contiguous(at::MemoryFormat::ChannelsLast)), plain), 2e-6);
  }
}

/// A small network trained by plain SGD for 1,000 steps: every weight stays orthonormal to 1e-5 in float, and
/// the loss goes down.
TEST(ParametrizedLayers, StayOrthonormalOverAThousandSteps) {
  for (const auto map : kAll) {
    torch::manual_seed(7);
    ParametrizedConv2d first(torch::nn::Conv2dOptions(3, 8, 3), map);
    ParametrizedConv2d second(torch::nn::Conv2dOptions(8, 8, 2), map);
    ParametrizedLinear head(torch::nn::LinearOptions(8, 4), map);
    torch::nn::Sequential net(first, torch::nn::Functional(torch::relu), second, torch::nn::Flatten(), head);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto x = torch::randn({16, 3, 4, 4});
    const auto target = torch::randint(4, {16}, at::kLong);
    double start = 0;
    double end = 0;
    double worst = 0;
    for (int step = 0; step < 1000; ++step) {
      optimizer.zero_grad();
      const auto loss = torch::nn::functional::cross_entropy(net->forward(x), target);
      loss.backward();
      optimizer.step();
      end = loss.item<double>();
      if (step == 0) start = end;
      if (step % 100 == 99) worst = std::max({worst, first->defect(), second->defect(), head->defect()});
    }
    RecordProperty("worst_defect_" + to_string(map), std::to_string(worst));
    EXPECT_LT(worst, 1e-5) << to_string(map);
    EXPECT_LT(end, 0.8 * start) << to_string(map);
  }
}

TEST(ParametrizedLayers, SayWhatTheyAre) {
  std::ostringstream stream;
  stream << *ParametrizedConv2d(torch::nn::Conv2dOptions(3, 8, 3), Parametrization::kOmdsm,
                                stiefel::OmdsmOptions{4});
  stream << *ParametrizedLinear(5, 2, Parametrization::kCayley);
  EXPECT_NE(stream.str().find("parametrisation=omdsm, group_size=4"), std::string::npos) << stream.str();
  EXPECT_NE(stream.str().find("in_features=5, out_features=2, bias=true, parametrisation=cayley"),
            std::string::npos)
      << stream.str();
}

TEST(ParametrizedLayers, RefuseWhatTheyCannotDo) {
  using torch::nn::Conv2dOptions;
  EXPECT_ERROR(ParametrizedConv2d(Conv2dOptions(4, 4, 3).groups(2)), "groups 2");
  EXPECT_ERROR(ParametrizedConv2d(Conv2dOptions(4, 4, 3).padding_mode(torch::kReflect)), "zeros only");
  EXPECT_ERROR(ParametrizedConv2d(Conv2dOptions(1, 4, 1)), "leaves nothing");
  EXPECT_ERROR(ParametrizedLinear(0, 4), "got 0 and 4");
  EXPECT_ERROR(
      ParametrizedLinear(torch::nn::LinearOptions(4, 4), Parametrization::kCayley, stiefel::OmdsmOptions{2}),
      "group_size 2");
}

}  // namespace parametrized_layers_test
