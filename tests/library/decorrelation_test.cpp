#include "tests/support.h"

// Decorrelated batch normalisation against its definition written out group by group in double, its
// gradients against finite differences, and the layer as a user meets it.

namespace decorrelation_test {

using at::Tensor;
using stiefel::nn::DecorrelatedBatchNorm2d;
using Options = stiefel::nn::DecorrelatedBatchNormOptions;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

/// Correlated activations with a mean, (N, C, H, W).
Tensor activations(at::IntArrayRef shape, at::ScalarType type = at::kDouble, double mean = 2) {
  const int64_t c = shape[1];
  const auto mix = torch::randn({c, c}, at::kDouble) + torch::eye(c, at::kDouble);
  const auto white = torch::randn(shape, at::kDouble);
  return (torch::einsum("dc,nchw->ndhw", {mix, white}) + mean * torch::randn({c, 1, 1}, at::kDouble))
      .to(type)
      .contiguous();
}

/// (N, C, H, W) as C×m in double.
Tensor matrix_of(const Tensor& x) {
  return x.detach().to(at::kDouble).transpose(0, 1).reshape({x.size(1), -1});
}

struct Statistics {
  Tensor mean;                    ///< (C)
  std::vector<Tensor> whitening;  ///< one s×s matrix a group
};

/// μ and Σ^(−½) of each group, by the SVD of the symmetric Σ: there U = V, and Σ^(−½) = U diag(s^(−½)) Uᵀ.
Statistics statistics(const Tensor& x, int64_t group_size, double eps) {
  const auto m = matrix_of(x);
  Statistics result{m.mean(1), {}};
  for (int64_t first = 0; first < m.size(0); first += group_size) {
    const auto rows = m.narrow(0, first, std::min(group_size, m.size(0) - first));
    const auto centered = rows - rows.mean(1, true);
    const auto sigma = centered.mm(centered.t()) / static_cast<double>(m.size(1)) +
                       eps * torch::eye(rows.size(0), at::kDouble);
    const auto [u, s, vh] = at::linalg_svd(sigma);
    result.whitening.push_back(u.mm(torch::diag(s.pow(-0.5))).mm(u.t()));
  }
  return result;
}

/// γ(P(X − μ)) + β.
Tensor normalize(const Tensor& x, const Statistics& by, const Tensor& gamma, const Tensor& beta) {
  const auto centered = matrix_of(x) - by.mean.unsqueeze(1);
  std::vector<Tensor> rows;
  int64_t first = 0;
  for (const auto& p : by.whitening) {
    rows.push_back(p.mm(centered.narrow(0, first, p.size(0))));
    first += p.size(0);
  }
  const auto y = gamma.to(at::kDouble).unsqueeze(1) * at::cat(rows) + beta.to(at::kDouble).unsqueeze(1);
  return y.reshape({x.size(1), x.size(0), x.size(2), x.size(3)}).transpose(0, 1);
}

/// A layer in double with random γ and β.
DecorrelatedBatchNorm2d layer_of(const Options& options) {
  DecorrelatedBatchNorm2d layer(options);
  layer->to(at::kDouble);
  const torch::NoGradGuard no_grad;
  if (options.affine()) {
    layer->weight.normal_(1, 0.5);
    layer->bias.normal_();
  }
  return layer;
}

/// How far the covariance of each group is from the identity, the largest entry.
double not_white(const Tensor& y, int64_t group_size) {
  const auto m = matrix_of(y);
  double worst = m.mean(1).abs().max().item<double>();
  for (int64_t first = 0; first < m.size(0); first += group_size) {
    const auto rows = m.narrow(0, first, std::min(group_size, m.size(0) - first));
    const auto covariance = rows.mm(rows.t()) / static_cast<double>(m.size(1));
    const auto off = (covariance - torch::eye(rows.size(0), at::kDouble)).abs().max().item<double>();
    worst = std::max(worst, off);
  }
  return worst;
}

TEST(Decorrelation, OutputIsTheDefinition) {
  for (const auto& [shape, group] :
       std::vector<std::pair<std::vector<int64_t>, int64_t>>{{{5, 8, 3, 4}, 4},
                                                             {{5, 7, 3, 3}, 3},
                                                             {{6, 5, 2, 2}, 16},
                                                             {{9, 4, 1, 1}, 2},
                                                             {{8, 1, 2, 3}, 16},
                                                             {{1, 6, 5, 5}, 1}}) {
    for (const bool last : {false, true}) {
      auto layer = layer_of(Options(shape[1]).group_size(group).eps(1e-2));
      auto x = activations(shape);
      if (last) x = x.contiguous(kChannelsLast);
      const auto y = layer->forward(x);
      const auto expected =
          normalize(x, statistics(x, group, 1e-2), layer->weight.detach(), layer->bias.detach());
      EXPECT_LT(support::distance(y, expected), 1e-11)
          << at::IntArrayRef(shape) << " " << group << " " << last;
      EXPECT_EQ(y.strides(), x.strides());
    }
  }
}

TEST(Decorrelation, OutputIsWhiteOnItsBatch) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    for (const bool last : {false, true}) {
      DecorrelatedBatchNorm2d layer(Options(40).eps(1e-10).affine(false));
      layer->to(type);
      auto x = activations({32, 40, 8, 8}, type, 10);
      if (last) x = x.contiguous(kChannelsLast);
      // Float loses what a mean of ten and nearly dependent channels cancel.
      EXPECT_LT(not_white(layer->forward(x), 16), type == at::kDouble ? 1e-7 : 3e-4);
    }
  }
}

/// ε leaves λ/(λ + ε) of each eigenvalue, and a constant channel is zero, not NaN.
TEST(Decorrelation, EpsilonShrinksAndConstantChannelsVanish) {
  DecorrelatedBatchNorm2d layer(Options(2).eps(0.5).affine(false));
  layer->to(at::kDouble);
  auto x = torch::zeros({4, 2, 1, 2}, at::kDouble);
  x.select(1, 0).copy_(torch::tensor({1., -1., 1., -1., 1., -1., 1., -1.}, at::kDouble).view({4, 1, 2}));
  x.select(1, 1).fill_(7);
  const auto y = layer->forward(x);
  EXPECT_NEAR(y.select(1, 0).abs().max().item<double>(), 1 / std::sqrt(1.5), 1e-14);
  EXPECT_LT(y.select(1, 1).abs().max().item<double>(), 1e-13);
}

TEST(Decorrelation, GradientsMatchFiniteDifferences) {
  for (const auto& [shape, group] : std::vector<std::pair<std::vector<int64_t>, int64_t>>{
           {{3, 4, 2, 2}, 2}, {{3, 5, 2, 1}, 2}, {{4, 3, 1, 2}, 16}}) {
    for (const bool last : {false, true}) {
      for (const bool affine : {true, false}) {
        auto layer = layer_of(Options(shape[1]).group_size(group).eps(1e-2).affine(affine));
        auto x = activations(shape);
        if (last) x = x.contiguous(kChannelsLast);
        x.requires_grad_(true);
        const auto c = torch::randn(shape, at::kDouble);
        const auto loss = [&] { return (c * layer->forward(x)).sum(); };
        loss().backward();
        EXPECT_EQ(x.grad().strides(), x.strides());
        std::vector<Tensor> inputs{x};
        for (const auto& parameter : layer->parameters()) inputs.push_back(parameter);
        EXPECT_EQ(inputs.size(), affine ? 3U : 1U);
        for (auto& input : inputs) {
          const torch::NoGradGuard no_grad;
          const auto gradient = input.grad().contiguous().view(-1);
          for (int64_t i = 0; i < input.numel(); ++i) {
            auto direction = torch::zeros(input.sizes(), at::kDouble);
            direction.view(-1)[i] = 1e-6;
            input.add_(direction);
            const double up = loss().item<double>();
            input.sub_(direction, 2);
            const double down = loss().item<double>();
            input.add_(direction);
            EXPECT_NEAR((up - down) / 2e-6, gradient[i].item<double>(),
                        1e-6 * (1 + gradient.abs().max().item<double>()))
                << at::IntArrayRef(shape) << " entry " << i << " of " << input.sizes();
          }
        }
      }
    }
  }
}

/// White input: Σ is a multiple of I, where a divided difference taken literally is 0/0.
TEST(Decorrelation, GradientsAreRightWhereEigenvaluesRepeat) {
  const auto hadamard =
      torch::tensor({1., 1., 1., 1., 1., -1., 1., -1., 1., 1., -1., -1., 1., -1., -1., 1.}, at::kDouble);
  auto x = hadamard.view({4, 4}).narrow(0, 1, 3).t().contiguous().view({4, 3, 1, 1});  // 3 channels, 4 places
  x.requires_grad_(true);
  auto layer = layer_of(Options(3));
  const auto c = torch::randn_like(x.detach());
  const auto loss = [&] { return (c * layer->forward(x)).sum(); };
  loss().backward();
  const torch::NoGradGuard no_grad;
  for (int64_t i = 0; i < 12; ++i) {
    auto entry = x.view(-1)[i];
    entry.add_(1e-6);
    const double up = loss().item<double>();
    entry.sub_(2e-6);
    const double down = loss().item<double>();
    entry.add_(1e-6);
    EXPECT_NEAR((up - down) / 2e-6, x.grad().view(-1)[i].item<double>(), 1e-6);
  }
}

/// More than one chunk of samples on the way, in both layouts, against the plain definition and each other.
TEST(Decorrelation, LargeBatchesAgreeInBothLayouts) {
  const auto x = activations({96, 24, 16, 16}, at::kDouble);
  const auto c = torch::randn_like(x);
  std::vector<Tensor> outputs;
  std::vector<Tensor> gradients;
  for (const bool last : {false, true}) {
    torch::manual_seed(3);
    auto layer = layer_of(Options(24));
    auto input = (last ? x.contiguous(kChannelsLast) : x.clone()).requires_grad_(true);
    const auto y = layer->forward(input);
    torch::autograd::backward({y}, {c});  // the gradient arrives in a layout of its own
    outputs.push_back(y);
    gradients.push_back(input.grad());
    if (!last) {
      EXPECT_LT(support::distance(
                    y, normalize(x, statistics(x, 16, 1e-3), layer->weight.detach(), layer->bias.detach())),
                1e-10);
    }
  }
  EXPECT_LT(support::distance(outputs[0], outputs[1]), 1e-11);
  EXPECT_LT(support::distance(gradients[0], gradients[1]), 1e-11);
  EXPECT_TRUE(gradients[1].is_contiguous(kChannelsLast));
}

TEST(Decorrelation, EvaluationUsesTheRunningStatistics) {
  for (const bool last : {false, true}) {
    auto layer = layer_of(Options(7).group_size(3).momentum(0.3).eps(1e-2));
    auto mean = torch::zeros({7}, at::kDouble);
    std::vector<Tensor> whitening{torch::eye(3, at::kDouble), torch::eye(3, at::kDouble),
                                  torch::eye(1, at::kDouble)};
    for (int step = 0; step < 3; ++step) {
      const auto x = activations({6, 7, 3, 3});
      layer->forward(last ? x.contiguous(kChannelsLast) : x);
      const auto batch = statistics(x, 3, 1e-2);
      mean = 0.7 * mean + 0.3 * batch.mean;
      for (size_t i = 0; i < 3; ++i) whitening[i] = 0.7 * whitening[i] + 0.3 * batch.whitening[i];
    }
    layer->eval();
    auto x = activations({2, 7, 3, 3});
    if (last) x = x.contiguous(kChannelsLast);
    const auto before = layer->running_whitening.clone();
    const auto y = layer->forward(x.requires_grad_(true));
    const auto expected = normalize(x, {mean, whitening}, layer->weight.detach(), layer->bias.detach());
    EXPECT_LT(support::distance(y, expected), 1e-11);
    EXPECT_EQ(support::distance(layer->running_whitening, before), 0);  // evaluation learns nothing
    // A frozen layer still passes gradients on: dX = Pᵀ(γ dY), and Σ dY to β.
    y.sum().backward();
    EXPECT_LT(support::distance(layer->bias.grad(), torch::full({7}, 18., at::kDouble)), 1e-11);
    const auto first = whitening[0].t().mv(layer->weight.detach().narrow(0, 0, 3));
    EXPECT_LT(support::distance(x.grad()[1].narrow(0, 0, 3).select(1, 2).select(1, 0), first), 1e-11);
  }
}

TEST(Decorrelation, SaveLoadAndCloneKeepEverything) {
  auto layer = layer_of(Options(5).group_size(2));
  for (int step = 0; step < 3; ++step) layer->forward(activations({6, 5, 3, 3}));
  std::stringstream stream;
  torch::save(layer, stream);
  auto other = layer_of(Options(5).group_size(2));
  torch::load(other, stream);
  const auto copy = std::dynamic_pointer_cast<stiefel::nn::DecorrelatedBatchNorm2dImpl>(layer->clone());
  layer->eval();
  other->eval();
  copy->eval();
  const auto x = activations({2, 5, 3, 3});
  EXPECT_EQ(support::distance(layer->forward(x), other->forward(x)), 0);
  EXPECT_EQ(support::distance(layer->forward(x), copy->forward(x)), 0);
}

TEST(Decorrelation, TrainsInASequential) {
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 20, 3).bias(false)),
                            DecorrelatedBatchNorm2d(20), torch::nn::ReLU(torch::nn::ReLUOptions(true)),
                            torch::nn::Flatten(), torch::nn::Linear(80, 4));
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
  const auto x = torch::randn({32, 3, 4, 4});
  const auto target = torch::randint(4, {32}, at::kLong);
  double start = 0;
  double end = 0;
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(net->forward(x), target);
    loss.backward();
    optimizer.step();
    end = loss.item<double>();
    if (step == 0) start = end;
  }
  EXPECT_LT(end, 0.1 * start);
}

TEST(Decorrelation, ValuesThatAreNotFiniteStayInTheirGroup) {
  DecorrelatedBatchNorm2d layer(Options(4).group_size(2));
  auto x = activations({4, 4, 2, 2}, at::kFloat);
  // The square of the second overflows, though its mean does not.
  for (const float value : {std::numeric_limits<float>::infinity(), 1e30F}) {
    x[1][0][0][0] = value;
    const auto y = layer->forward(x);
    EXPECT_FALSE(at::isfinite(y.narrow(1, 0, 2)).any().item<bool>()) << value;
    EXPECT_TRUE(at::isfinite(y.narrow(1, 2, 2)).all().item<bool>()) << value;
  }
}

TEST(Decorrelation, ReducedPrecisionGoesInAndOut) {
  DecorrelatedBatchNorm2d layer(Options(4));
  const auto x = activations({8, 4, 3, 3}, at::kFloat).to(at::kBFloat16).to(at::kFloat);
  const auto y = layer->forward(x.to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LT(support::distance(y.to(at::kFloat), layer->forward(x)), 0.02);
}

TEST(Decorrelation, RefusesWhatItCannotDo) {
  EXPECT_ERROR(DecorrelatedBatchNorm2d(Options(0)), "num_features must be positive; got 0");
  EXPECT_ERROR(DecorrelatedBatchNorm2d(Options(4).group_size(0)), "group_size must be positive; got 0");
  EXPECT_ERROR(DecorrelatedBatchNorm2d(Options(4).eps(0)), "eps must be positive");
  EXPECT_ERROR(DecorrelatedBatchNorm2d(Options(4).momentum(1.5)), "got 1.5");
  DecorrelatedBatchNorm2d layer(Options(4));
  EXPECT_ERROR(layer->forward(torch::randn({2, 3, 2, 2})), "(N, 4, H, W)");
  EXPECT_ERROR(layer->forward(torch::randn({2, 4})), "(N, 4, H, W)");
  EXPECT_ERROR(layer->forward(torch::randn({1, 4, 1, 1})), "two values a channel");
  EXPECT_ERROR(layer->forward(torch::randn({2, 4, 2, 2}, at::kComplexFloat)), "real floating-point");
  layer->eval();
  EXPECT_EQ(layer->forward(torch::randn({1, 4, 1, 1})).numel(), 4);  // evaluation needs no batch
  std::ostringstream stream;
  stream << *layer;
  EXPECT_NE(stream.str().find("DecorrelatedBatchNorm2d(4, group_size=16"), std::string::npos) << stream.str();
}

}  // namespace decorrelation_test
