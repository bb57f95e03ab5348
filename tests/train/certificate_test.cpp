#include "train/certificate.h"

#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/catalog.h"
#include "models/classifier.h"
#include "tests/data/data_support.h"
#include "tests/scratch.h"
#include "train/attack.h"
#include "train/methods.h"
#include "train/tasks/image_task.h"
#include "train/trainer.h"

// Certificates: each number against an independent computation, and predictions that no attack may change.

namespace certificate_test {

namespace fs = std::filesystem;
using namespace stiefel::train;
using stiefel::data::Normalization;
using stiefel::models::LipschitzNetwork;
using stiefel::models::make_lipschitz;

double largest_singular_value(const at::Tensor& weight) {
  return at::linalg_svdvals(weight.detach().to(at::kDouble).reshape({weight.size(0), -1}))
      .max()
      .item<double>();
}

TEST(Certificate, BoundsTheSpectralNormOfAnyWeight) {
  torch::manual_seed(1);
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{5, 40}, {40, 5}, {16, 16}, {8, 3, 1, 1}, {1, 30}}) {
    const auto free = torch::randn(shape);
    EXPECT_GE(spectral_norm_bound(free), largest_singular_value(free));
    EXPECT_NEAR(spectral_norm_bound(free) / largest_singular_value(free), 1, 1e-9);
    auto orthonormal = torch::empty(shape);
    stiefel::init::haar_(orthonormal);
    EXPECT_GE(spectral_norm_bound(orthonormal), largest_singular_value(orthonormal));
    EXPECT_NEAR(spectral_norm_bound(orthonormal), 1, 1e-6);
    EXPECT_LE(spectral_norm_bound(orthonormal),
              std::sqrt(1 + stiefel::defect(orthonormal.to(at::kDouble)).item<double>()) + 1e-9);
    // A defect that is not counted would certify too much.
    orthonormal *= 1.01;
    EXPECT_NEAR(spectral_norm_bound(orthonormal), 1.01, 1e-6);
  }
}

const Normalization kGrey{{0.3}, {0.4}};

/// A network off the manifold, as a trained one is a little, with biases.
std::shared_ptr<LipschitzNetwork> disturbed(const std::string& name, int64_t classes, double by) {
  torch::manual_seed(2);
  const auto net = make_lipschitz(name, {1, classes, 0});
  const torch::NoGradGuard no_grad;
  for (const auto& mixing : net->mixings()) {
    at::Tensor(mixing.weight).add_(torch::randn(mixing.weight.sizes()), by);
    at::Tensor(mixing.bias).normal_(0, 0.2);
  }
  return net;
}

TEST(Certificate, RadiusIsTheDefinitions) {
  for (const char* name : {"lip-mlp-3x20", "lip-2-8"}) {
    const auto net = disturbed(name, 5, 0.01);
    const PixelNetwork network(net, kGrey, at::kDouble);
    const Certificate certificate(network);
    double lipschitz = 1 / 0.4;
    const auto mixings = net->mixings();
    for (size_t i = 0; i + 1 < mixings.size(); ++i) lipschitz *= largest_singular_value(mixings[i].weight);
    EXPECT_GE(certificate.lipschitz(), lipschitz);
    EXPECT_NEAR(certificate.lipschitz() / lipschitz, 1, 1e-9);
    EXPECT_GT(lipschitz, 2.5 * 1.01) << "the weights are off the manifold, or nothing is tested";

    const auto pixels = torch::rand({20, 1, 32, 32}, torch::kDouble);
    const auto found = certificate.certify(pixels);
    const auto scores = net->forward((pixels - 0.3) / 0.4);
    const auto head = mixings.back().weight;
    for (int64_t i = 0; i < 20; ++i) {
      const auto y = scores[i].argmax().item<int64_t>();
      EXPECT_EQ(found.predicted[i].item<int64_t>(), y);
      double radius = 1e300, margin = 1e300;
      for (int64_t j = 0; j < 5; ++j) {
        if (j == y) continue;
        const double gap = (scores[i][y] - scores[i][j]).item<double>();
        margin = std::min(margin, gap);
        radius = std::min(radius, gap / (lipschitz * (head[y] - head[j]).norm().item<double>()));
      }
      EXPECT_NEAR(found.margin[i].item<double>(), margin, 1e-12);
      EXPECT_LE(found.radius[i].item<double>(), radius);
      EXPECT_NEAR(found.radius[i].item<double>(), radius, 1e-8 * radius + 1e-8);
    }
  }
}

TEST(Certificate, CountsRounding) {
  const auto net = disturbed("lip-mlp-2x16", 4, 0.01);
  const PixelNetwork network(net, kGrey, at::kDouble);
  const Certificate certificate(network);
  const auto pixels = torch::rand({1, 1, 32, 32}, torch::kDouble);
  const auto scores = network(pixels)[0];
  // The same in the longer numbers of the processor.
  std::vector<long double> x;
  for (int64_t i = 0; i < 1024; ++i) {
    x.push_back((static_cast<long double>(pixels.view(-1)[i].item<double>()) - 0.3L) / 0.4L);
  }
  long double length = 0;
  for (const auto value : x) length += value * value;
  const auto mixings = net->mixings();
  for (size_t layer = 0; layer < mixings.size(); ++layer) {
    std::vector<long double> y;
    const auto weight = mixings[layer].weight.accessor<double, 2>();
    for (int64_t i = 0; i < weight.size(0); ++i) {
      long double sum = mixings[layer].bias[i].item<double>();
      for (int64_t j = 0; j < weight.size(1); ++j) sum += weight[i][j] * x[static_cast<size_t>(j)];
      y.push_back(sum);
    }
    for (size_t i = 0; layer + 1 < mixings.size() && i < y.size() / 2; ++i) y[i] = std::abs(y[i]);
    x = y;
  }
  long double error = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const auto off = x[static_cast<size_t>(i)] - static_cast<long double>(scores[i].item<double>());
    error += off * off;
  }
  const double bound = certificate.rounding(static_cast<double>(std::sqrt(length)));
  EXPECT_LE(static_cast<double>(std::sqrt(error)), bound);
  EXPECT_LT(bound, 1e-9) << "a bound that costs no radius";
  EXPECT_GT(certificate.rounding(1e4), bound);
  // A margin shorter than rounding certifies nothing.
  {
    const torch::NoGradGuard no_grad;
    const auto order = scores.argsort(0, /*descending=*/true);
    const auto gap = scores[order[0]] - scores[order[1]];
    at::Tensor(mixings.back().bias)[order[1]] += gap - 1e-12;
  }
  const auto close = Certificate(network).certify(pixels);
  EXPECT_NEAR(close.margin.item<double>(), 1e-12, 5e-13);
  EXPECT_EQ(close.radius.item<double>(), 0);
}

TEST(Certificate, NeedsABoundedNetworkInFloat64) {
  const auto error = [](const std::string& name, at::ScalarType type) {
    const PixelNetwork network(stiefel::models::make_classifier(name, {1, 10, 0}), kGrey, type);
    try {
      const Certificate certificate(network);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error("small", at::kDouble).find("lip-D-W"), std::string::npos);
  EXPECT_NE(error("lip-1-8", at::kFloat).find("float64"), std::string::npos);
  EXPECT_THROW(require_certifiable("wrn-16-4"), std::invalid_argument);
  EXPECT_NO_THROW(require_certifiable("lip-1-8"));
}

TEST(Certificate, NanCertifiesNothing) {
  const auto net = disturbed("lip-mlp-1x8", 3, 0);
  const PixelNetwork network(net, kGrey, at::kDouble);
  const auto pixels = torch::full({2, 1, 32, 32}, std::nan(""), torch::kDouble);
  EXPECT_EQ(Certificate(network).certify(pixels).radius.max().item<double>(), 0);
  {
    const torch::NoGradGuard no_grad;
    at::Tensor(net->mixings()[0].weight)[1][1] = std::nan("");
  }
  const auto whole = torch::rand({2, 1, 32, 32}, torch::kDouble);
  EXPECT_EQ(Certificate(network).certify(whole).radius.max().item<double>(), 0) << "of a run that diverged";
}

/// Trained networks: on Fashion-MNIST where it is installed, else on made pictures.
class Trained : public scratch::Test {
 protected:
  /// Ten classes of bright stripes in noise.
  static std::string stripes(int64_t count, uint32_t seed) {
    auto bytes = support::idx_images(count, 28, seed);
    const size_t begin = bytes.size() - static_cast<size_t>(count * 28 * 28);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t row = 0; row < 28; ++row) {
        for (int64_t column = 0; column < 28; ++column) {
          auto& byte = bytes[begin + static_cast<size_t>((i * 28 + row) * 28 + column)];
          const int noise = static_cast<unsigned char>(byte) / 4;
          byte = static_cast<char>(noise + (row / 3 == i % 10 ? 120 : 20));
        }
      }
    }
    return bytes;
  }

  void write_stripes(int64_t train, int64_t test) const {
    support::write(folder_ / "mnist/train-images-idx3-ubyte", stripes(train, 1));
    support::write(folder_ / "mnist/train-labels-idx1-ubyte", support::idx_labels(train));
    support::write(folder_ / "mnist/t10k-images-idx3-ubyte", stripes(test, 2));
    support::write(folder_ / "mnist/t10k-labels-idx1-ubyte", support::idx_labels(test));
  }

  Config config_of(const std::string& model, const std::string& optim) const {
    Config config;
    config.data = "mnist";
    config.data_dir = (folder_ / "mnist").string();
    config.model = model;
    config.optim = optim;
    config.device = "cpu";
    config.threads = 1;
    config.batch = 40;
    config.epochs = 1;
    config.schedule = "constant";
    return config;
  }

  std::unique_ptr<Trainer> train(Config config) {
    resolve(config);
    const auto run = folder_ / std::to_string(runs_++);
    fs::create_directories(run);
    auto trainer = std::make_unique<Trainer>(config, run, std::vector<std::string>{});
    ::testing::internal::CaptureStdout();
    trainer->run();
    ::testing::internal::GetCapturedStdout();
    return trainer;
  }

  int runs_ = 0;
};

TEST_F(Trained, EveryMethodTrainsThem) {
  write_stripes(400, 40);
  for (const auto& method : methods()) {
    for (const char* model : {"lip-mlp-2x16", "lip-2-8"}) {
      const auto what = method.facts.name + " " + model;
      auto config = config_of(model, method.facts.name);
      // Images are about 30 long, so gradients are too: rates are lower than for networks with normalisation.
      config.lr = 1e-3;
      if (method.facts.has_matrix_rate()) config.lr_manifold = method.facts.uses_root ? 1e-2 : 5e-4;
      const auto trainer = train(config);
      const auto result = trainer->evaluate(Task::Part::kTest);
      EXPECT_TRUE(std::isfinite(result.loss)) << what;
      for (const double defect : trainer->measure_defects()) {
        EXPECT_LT(defect, std::max(1e-4, method.facts.defect_bound)) << what;
      }
      EXPECT_EQ(trainer->measure_defects().empty(), !method.facts.is_constrained()) << what;
    }
  }
}

TEST_F(Trained, EveryLossLowersTheErrorAndMarginsGrowTheRadius) {
  write_stripes(400, 200);
  for (const auto& loss : loss_names()) {
    auto config = config_of("lip-mlp-2x32", "cayley-muon");
    config.loss = loss;
    config.epochs = 4;
    const auto trainer = train(config);
    EXPECT_LT(trainer->evaluate(Task::Part::kTest).error, 5) << loss;
  }
}

/// How many of the images that are certified at a radius, were their radii `factor` times as long, an attack
/// changes the prediction of.
int64_t contradictions(const Certified& found, const Attacked& attacked, double radius, double factor) {
  return (found.radius * factor).gt(radius).logical_and(attacked.changed).sum().item<int64_t>();
}

TEST_F(Trained, NoAttackChangesACertifiedPrediction) {
  auto config = config_of("lip-mlp-2x48", "cayley-muon");
  config.data = "fashion-mnist";
  config.data_dir = "";
  config.validation = 48000;  // 12,000 images are enough
  try {
    stiefel::data::locate(stiefel::data::facts_of(config.data), "");
  } catch (const std::exception&) {
    write_stripes(1200, 2000);
    config.data = "mnist";
    config.data_dir = (folder_ / "mnist").string();
    config.validation = 0;
  }
  auto other = config;
  other.model = "lip-2-8";
  for (const auto& each : {config, other}) {
    const auto trainer = train(each);
    const auto& task = dynamic_cast<const ImageTask&>(trainer->task());
    const auto model = make_lipschitz(each.model, {1, 10, 0});
    const auto trained = trainer->model().parameters();
    for (size_t i = 0; i < trained.size(); ++i) model->parameters()[i].set_data(trained[i].detach().clone());
    const PixelNetwork network(model, task.normalization(), at::kDouble);
    const auto items = task.raw_items(Task::Part::kTest, 0, 2000);
    const auto pixels = network.pixels_of(items.inputs);
    const auto found = Certificate(network).certify(pixels);
    ASSERT_EQ(found.radius.size(0), 2000);
    const auto sorted = std::get<0>(found.radius.sort());
    int64_t certified = 0, beyond = 0;
    for (const int64_t place : {600, 1400}) {
      AttackOptions options;
      options.radius = sorted[place].item<double>();
      options.steps = 12;
      options.restarts = place == 600 ? 2 : 1;
      const auto attacked = attack(network, pixels, items.targets, options);
      EXPECT_LE(attacked.longest.max().item<double>(), options.radius);
      EXPECT_GT(attacked.longest.max().item<double>(), 0.99 * options.radius) << "the ball is used";
      certified += found.radius.gt(options.radius).sum().item<int64_t>();
      EXPECT_EQ(contradictions(found, attacked, options.radius, 1), 0) << each.model << " " << options.radius;
      beyond += contradictions(found, attacked, options.radius, 4);
    }
    EXPECT_GT(certified, 1500) << each.model << ": few images were tested";
    // The same check with radii that claim too much: it finds them out.
    EXPECT_GT(beyond, 20) << each.model;
  }
}

TEST(Attack, BreaksANetworkThatIsNotBounded) {
  // Two classes that a small step along the weight exchanges.
  torch::manual_seed(3);
  const auto net = make_lipschitz("lip-mlp-1x8", {1, 2, 0});
  {
    const torch::NoGradGuard no_grad;
    at::Tensor(net->mixings()[0].weight).mul_(1000);
  }
  const PixelNetwork network(net, kGrey, at::kFloat);
  const auto pixels = torch::rand({50, 1, 32, 32}) * 0.6 + 0.2;
  const auto labels = network(pixels).argmax(1);
  AttackOptions options;
  options.radius = 0.5;
  options.steps = 30;
  const auto found = attack(network, pixels, labels, options);
  EXPECT_GT(found.broken.sum().item<int64_t>(), 10);
  EXPECT_TRUE(at::equal(found.broken, found.changed)) << "every image was right before";
  EXPECT_LE(found.longest.max().item<double>(), options.radius);
  EXPECT_TRUE(at::equal(attack(network, pixels, labels, options).broken, found.broken))
      << "repeats by its seed";
  EXPECT_TRUE(attack(network, pixels, 1 - labels, options).broken.all().item<bool>())
      << "wrong without attack";
  options.radius = 1e-9;
  EXPECT_EQ(attack(network, pixels, labels, options).changed.sum().item<int64_t>(), 0);
}

}  // namespace certificate_test
