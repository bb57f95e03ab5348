#include "models/sync_batch_norm.h"

#include <torch/nn/modules/batchnorm.h>

#include "models/classifier.h"
#include "tests/support.h"
#include "tests/thread_ranks.h"

// Batch normalisation over ranks, against LibTorch's of one process that has the whole batch.

namespace sync_batch_norm_test {

using at::Tensor;
using stiefel::models::SyncBatchNorm2d;
using support::run_ranks;
using torch::nn::BatchNorm2d;
using torch::nn::BatchNormOptions;

constexpr int64_t kChannels = 3;

/// Images whose channels have means far from zero beside their spread, in ranks' parts of unequal sizes.
struct Batch {
  Tensor images, weights;

  explicit Batch(at::ScalarType type = at::kDouble, double offset = 5) {
    torch::manual_seed(7);
    images = torch::randn({9, kChannels, 4, 5}, type) * 2 +
             offset * torch::arange(1, kChannels + 1, type).view({1, -1, 1, 1});
    weights = torch::randn(images.sizes(), type);  // of the outputs in the loss
  }

  static std::pair<int64_t, int64_t> part(int64_t rank, int64_t size) {
    const std::vector<int64_t> lengths = size == 1 ? std::vector<int64_t>{9} : std::vector<int64_t>{2, 6, 1};
    int64_t from = 0;
    for (int64_t r = 0; r < rank; ++r) from += lengths[static_cast<size_t>(r)];
    return {from, lengths[static_cast<size_t>(rank)]};
  }
};

template <class Norm>
void set_scale(Norm& norm, at::ScalarType type) {
  const torch::NoGradGuard no_grad;
  norm->to(type);
  norm->weight.copy_(torch::tensor({0.5, -1.5, 2.0}));
  norm->bias.copy_(torch::tensor({0.1, 0.2, -0.3}));
}

/// The loss is curved, so that its gradient depends on the outputs.
Tensor loss_of(const Tensor& y, const Tensor& weights) { return (y.tanh() * weights).sum(); }

/// What the ranks together compute of a batch.
struct Result {
  double loss = 0;
  Tensor y, of_images, of_weight, of_bias, running_mean, running_var;
};

Result by_ranks(int64_t size, const Batch& batch) {
  std::vector<Result> parts(static_cast<size_t>(size));
  run_ranks(size, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    SyncBatchNorm2d norm(BatchNormOptions(kChannels), ranks);
    set_scale(norm, batch.images.scalar_type());
    const auto [from, length] = Batch::part(ranks->rank(), size);
    const auto x = batch.images.narrow(0, from, length).clone().requires_grad_();
    const auto y = norm->forward(x);
    const auto loss = loss_of(y, batch.weights.narrow(0, from, length));
    loss.backward();
    parts[static_cast<size_t>(ranks->rank())] = {loss.item<double>(), y.detach(),        x.grad(),
                                                 norm->weight.grad(), norm->bias.grad(), norm->running_mean,
                                                 norm->running_var};
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
  });
  Result whole = parts[0];
  std::vector<Tensor> ys, xs;
  for (size_t r = 0; r < parts.size(); ++r) {
    ys.push_back(parts[r].y);
    xs.push_back(parts[r].of_images);
    EXPECT_TRUE(parts[r].running_mean.equal(parts[0].running_mean)) << "bit for bit between ranks";
    EXPECT_TRUE(parts[r].running_var.equal(parts[0].running_var));
    if (r == 0) continue;
    whole.loss += parts[r].loss;
    whole.of_weight = whole.of_weight + parts[r].of_weight;
    whole.of_bias = whole.of_bias + parts[r].of_bias;
  }
  whole.y = at::cat(ys);
  whole.of_images = at::cat(xs);
  return whole;
}

Result by_one(const Batch& batch) {
  BatchNorm2d norm{BatchNormOptions(kChannels)};
  set_scale(norm, batch.images.scalar_type());
  const auto x = batch.images.clone().requires_grad_();
  const auto y = norm->forward(x);
  const auto loss = loss_of(y, batch.weights);
  loss.backward();
  return {loss.item<double>(), y.detach(),         x.grad(),         norm->weight.grad(),
          norm->bias.grad(),   norm->running_mean, norm->running_var};
}

void expect_equal(const Result& a, const Result& b, double tolerance) {
  EXPECT_NEAR(a.loss, b.loss, tolerance * (1 + std::abs(b.loss)));
  EXPECT_LT(support::distance(a.y, b.y), tolerance);
  EXPECT_LT(support::distance(a.of_images, b.of_images), tolerance);
  EXPECT_LT(support::distance(a.of_weight, b.of_weight), tolerance * 10);
  EXPECT_LT(support::distance(a.of_bias, b.of_bias), tolerance * 10);
  EXPECT_LT(support::distance(a.running_mean, b.running_mean), tolerance);
  EXPECT_LT(support::distance(a.running_var, b.running_var), tolerance);
}

TEST(SyncBatchNorm, IsThatOfOneProcess) {
  for (const int64_t size : {1, 3}) {
    const Batch batch;
    expect_equal(by_ranks(size, batch), by_one(batch), 1e-12);
  }
}

TEST(SyncBatchNorm, MeansFarFromZeroDoNotCancel) {
  // A sum of squares in float would have lost the variance, 4 beside 9e8.
  const Batch batch(at::kFloat, 1e4);
  const auto exact = by_one([&] {
    Batch wide = batch;
    wide.images = wide.images.to(at::kDouble);
    wide.weights = wide.weights.to(at::kDouble);
    return wide;
  }());
  const auto found = by_ranks(3, batch);
  EXPECT_LT(((found.running_var - exact.running_var) / exact.running_var).abs().max().item<double>(), 1e-5);
}

TEST(SyncBatchNorm, ItsGradientIsThatOfFiniteDifferences) {
  const Batch batch;
  const auto gradient = by_ranks(3, batch).of_images;
  constexpr double h = 1e-5;
  for (const int64_t i : {0, 7, 63, 130, 299, 480, 539}) {
    const auto loss_at = [&](double by) {
      Batch moved = batch;
      moved.images = batch.images.clone();
      moved.images.view(-1)[i] += by;
      return by_ranks(3, moved).loss;
    };
    EXPECT_NEAR((loss_at(h) - loss_at(-h)) / (2 * h), gradient.view(-1)[i].item<double>(), 1e-8) << i;
  }
}

TEST(SyncBatchNorm, EvaluatesAsLibTorchsDoes) {
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const Batch batch;
    SyncBatchNorm2d ours(BatchNormOptions(kChannels), ranks);
    BatchNorm2d theirs{BatchNormOptions(kChannels)};
    set_scale(ours, at::kDouble);
    set_scale(theirs, at::kDouble);
    for (const auto& buffer : {&theirs->running_mean, &ours->running_mean}) buffer->fill_(0.7);
    for (const auto& buffer : {&theirs->running_var, &ours->running_var}) buffer->fill_(1.7);
    ours->eval();
    theirs->eval();
    // Each rank by itself: no rank waits for another.
    if (ranks->rank() == 1) return;
    EXPECT_TRUE(ours->forward(batch.images).equal(theirs->forward(batch.images)));
  });
}

TEST(SyncBatchNorm, NetworksHaveTheSameParametersAndBuffers) {
  for (const char* name : {"small", "vgg-13", "wrn-10-1"}) {
    run_ranks(1, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
      stiefel::models::ConstrainedLayers::Choice choice;
      choice.ranks_of_norm = ranks;
      const auto net = stiefel::models::make_classifier(name, {}, stiefel::models::ConstrainedLayers(choice));
      const auto plain = stiefel::models::make_classifier(name, {});
      const auto keys_of = [](const torch::nn::Module& module) {
        auto keys = module.named_parameters().keys();
        for (const auto& key : module.named_buffers().keys()) keys.push_back(key);
        return keys;
      };
      EXPECT_EQ(keys_of(*net), keys_of(*plain)) << name;
      int64_t norms = 0;
      for (const auto& module : net->modules()) {
        EXPECT_EQ(module->as<torch::nn::BatchNorm2dImpl>(), nullptr);
        if (module->as<stiefel::models::SyncBatchNorm2dImpl>() != nullptr) ++norms;
      }
      EXPECT_GT(norms, 3) << name;
    });
  }
}

TEST(SyncBatchNorm, RejectsWhatItHasNoStatisticsFor) {
  run_ranks(1, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    SyncBatchNorm2d norm(BatchNormOptions(kChannels), ranks);
    EXPECT_NE(support::error_of([&] {
                norm->forward(torch::randn({2, 3}));
              }).find("(N, channels"),
              std::string::npos);
    const auto message =
        support::error_of([&] { SyncBatchNorm2d(BatchNormOptions(kChannels).affine(false), ranks); });
    EXPECT_NE(message.find("running statistics"), std::string::npos) << message;
  });
}

}  // namespace sync_batch_norm_test
