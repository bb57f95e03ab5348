#include "train/classification_loss.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>

// The losses of classifiers against their definitions, a number at a time, and what options go together.

namespace classification_loss_test {

using namespace stiefel::train;

constexpr double kFactor = 2.5;  // of the normalisation
constexpr double kRadius = 0.2;
const double kMargin = std::sqrt(2.0) * kFactor * kRadius;

Config config_of(const std::string& loss, std::optional<double> temperature = std::nullopt) {
  Config config;
  config.model = "lip-6-64";
  config.loss = loss;
  config.temperature = temperature;
  if (is_margin_loss(loss)) config.margin_radius = kRadius;
  return config;
}

struct Sample {
  at::Tensor scores = torch::randn({40, 6}, torch::kDouble);
  at::Tensor targets = torch::randint(6, {40});

  /// The mean of what `of` makes of each row and its target.
  double mean(const std::function<double(const std::vector<double>&, size_t)>& of) const {
    double sum = 0;
    for (int64_t i = 0; i < scores.size(0); ++i) {
      const auto row = scores[i].contiguous();
      const std::vector<double> values(row.data_ptr<double>(), row.data_ptr<double>() + row.numel());
      sum += of(values, static_cast<size_t>(targets[i].item<int64_t>()));
    }
    return sum / static_cast<double>(scores.size(0));
  }
};

double cross_entropy(const std::vector<double>& s, size_t y, double temperature) {
  double sum = 0;
  for (const double value : s) sum += std::exp(temperature * value);
  return std::log(sum) - temperature * s[y];
}

double value(const Config& config, const Sample& sample) {
  return ClassificationLoss(config, kFactor)(sample.scores, sample.targets).item<double>();
}

TEST(ClassificationLoss, CrossEntropyIsLibTorchsUnlessATemperatureIsGiven) {
  torch::manual_seed(1);
  const Sample sample;
  const auto plain = ClassificationLoss(Config{}, kFactor)(sample.scores, sample.targets);
  EXPECT_TRUE(at::equal(plain, at::cross_entropy_loss(sample.scores, sample.targets)));
  for (const double temperature : {0.5, 1.0, 4.0}) {
    EXPECT_NEAR(value(config_of("cross-entropy", temperature), sample),
                sample.mean([&](const auto& s, size_t y) { return cross_entropy(s, y, temperature); }),
                1e-12);
  }
}

TEST(ClassificationLoss, TheOffsetLowersTheOwnScoreByTheMargin) {
  torch::manual_seed(2);
  const Sample sample;
  EXPECT_NEAR(value(config_of("offset-cross-entropy", 3), sample), sample.mean([](auto s, size_t y) {
    s[y] -= kMargin;
    return cross_entropy(s, y, 3);
  }),
              1e-12);
}

TEST(ClassificationLoss, EmmaAsksEachClassForTheMarginThatItHas) {
  torch::manual_seed(3);
  Sample sample;
  const auto asked = [](const std::vector<double>& s, size_t y) {
    auto result = s;
    for (size_t j = 0; j < s.size(); ++j) result[j] += std::clamp(s[y] - s[j], 0.0, kMargin);
    return result;
  };
  EXPECT_NEAR(value(config_of("emma", 2), sample),
              sample.mean([&](const auto& s, size_t y) { return cross_entropy(asked(s, y), y, 2); }), 1e-12);
  // What is asked for has no gradient: that of a score is T(softmax − e_y)/N of the raised scores.
  sample.scores.requires_grad_(true);
  ClassificationLoss(config_of("emma", 2), kFactor)(sample.scores, sample.targets).backward();
  for (int64_t i = 0; i < 40; ++i) {
    const auto row = sample.scores.detach()[i].contiguous();
    const std::vector<double> s(row.data_ptr<double>(), row.data_ptr<double>() + 6);
    const auto y = static_cast<size_t>(sample.targets[i].item<int64_t>());
    const auto raised = asked(s, y);
    double sum = 0;
    for (const double r : raised) sum += std::exp(2 * r);
    for (size_t j = 0; j < 6; ++j) {
      const double expected = 2 * (std::exp(2 * raised[j]) / sum - (j == y ? 1 : 0)) / 40;
      EXPECT_NEAR(sample.scores.grad()[i][static_cast<int64_t>(j)].item<double>(), expected, 1e-12);
    }
  }
}

TEST(ClassificationLoss, HingeIsZeroWhereTheRadiusIsReached) {
  torch::manual_seed(4);
  const Sample sample;
  EXPECT_NEAR(value(config_of("hinge"), sample), sample.mean([](const auto& s, size_t y) {
    double sum = 0;
    for (size_t j = 0; j < s.size(); ++j) sum += j == y ? 0 : std::max(0.0, kMargin - (s[y] - s[j]));
    return sum;
  }),
              1e-12);
  // Scores of a network with orthonormal rows move by √2·L per pixel: a margin of √2·L·ε certifies ε.
  Sample sure;
  sure.scores = torch::zeros({40, 6}, torch::kDouble).scatter(1, sure.targets.unsqueeze(1), kMargin);
  EXPECT_NEAR(value(config_of("hinge"), sure), 0, 1e-12);
  sure.scores *= 0.9;
  EXPECT_NEAR(value(config_of("hinge"), sure), 5 * 0.1 * kMargin, 1e-12);
}

std::string error_of(const std::function<void(Config&)>& change) {
  Config config;
  change(config);
  try {
    resolve(config);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(ClassificationLoss, OptionsThatDoNotGoTogetherAreNamed) {
  const auto expect = [](const std::function<void(Config&)>& change, const std::string& part) {
    const auto error = error_of(change);
    EXPECT_NE(error.find(part), std::string::npos) << "expected '" << part << "', got '" << error << "'";
  };
  expect([](Config& c) { c.loss = "mse"; }, "offset-cross-entropy");
  expect([](Config& c) { c.loss = "emma"; }, "--model lip-D-W");
  expect([](Config& c) { c.margin_radius = 0.1; }, "--margin-radius has no meaning");
  expect([](Config& c) { c.model = "lip-6-64", c.loss = "hinge", c.temperature = 2; }, "no softmax");
  expect([](Config& c) { c.temperature = 0; }, "--temperature is 0");
  expect([](Config& c) { c.task = "copying", c.temperature = 2; }, "for images");
  expect([](Config& c) { c.model = "lip-6-64", c.optim = "sgd", c.weights = "omdsm"; }, "--weights");
  expect([](Config& c) { c.model = "lip-6-64", c.optim = "sgd", c.normalization = "dbn"; },
         "--normalisation");
  EXPECT_EQ(error_of([](Config& c) { c.temperature = 2; }), "") << "any image network has a temperature";
}

TEST(ClassificationLoss, DefaultsAreThoseOfTheNetwork) {
  Config plain, lipschitz = config_of("cross-entropy"), emma = config_of("emma"), hinge = config_of("hinge");
  emma.margin_radius = std::nullopt;
  for (auto* config : {&plain, &lipschitz, &emma, &hinge}) {
    resolve(*config);
    const auto once = to_toml(*config);
    resolve(*config);
    EXPECT_EQ(to_toml(*config), once) << "what was resolved stays as it is";
  }
  EXPECT_EQ(plain.temperature, 1);
  EXPECT_EQ(lipschitz.temperature, 2);
  EXPECT_FALSE(plain.margin_radius);
  EXPECT_EQ(emma.margin_radius, 108.0 / 255);
  EXPECT_FALSE(hinge.temperature);
}

}  // namespace classification_loss_test
