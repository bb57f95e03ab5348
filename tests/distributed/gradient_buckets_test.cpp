#include "distributed/gradient_buckets.h"

#include <atomic>

#include "tests/distributed/thread_world.h"
#include "tests/support.h"

// Gradients averaged over ranks, against the gradients of one process that sees the whole batch.

namespace gradient_buckets_test {

using at::Tensor;
using stiefel::distributed::GradientBuckets;
using support::run_ranks;
using support::ThreadWorld;

constexpr int64_t kBatch = 12;  // of all ranks together; 1, 2, 3 and 4 divide it

/// A convolution in the channels-last format, a complex matrix, a vector, a parameter in float among doubles
/// and one that nothing depends on.
struct Net {
  Tensor convolution, complex, bias, single, unused;

  Net() {
    torch::manual_seed(3);
    convolution =
        torch::randn({4, 3, 3, 3}, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    complex = torch::randn({5, 4}, at::kComplexDouble).requires_grad_();
    bias = torch::randn({5}, at::kDouble).requires_grad_();
    single = torch::randn({5}, at::kFloat).requires_grad_();
    unused = torch::randn({7}, at::kDouble).requires_grad_();
  }
  Net(const Net& other)
      : convolution(support::copy_of(other.convolution)),
        complex(support::copy_of(other.complex)),
        bias(support::copy_of(other.bias)),
        single(support::copy_of(other.single)),
        unused(support::copy_of(other.unused)) {}

  std::vector<Tensor> parameters() const { return {convolution, complex, bias, unused, single}; }

  /// The mean over the images, as a training loss is.
  Tensor loss(const Tensor& images) const {
    const auto features = at::conv2d(images, convolution).tanh().mean({2, 3});
    const auto z = at::matmul(features.to(at::kComplexDouble), complex.t());
    return (at::view_as_real(z).square().sum(-1) * single.to(at::kDouble) + at::real(z).square() * bias)
        .mean();
  }

  void zero_grad() const {
    for (const auto& parameter : parameters()) parameter.mutable_grad() = Tensor();
  }
};

Tensor images_of_step(int64_t step) {
  return torch::randn({kBatch, 3, 6, 6}, at::make_generator<at::CPUGeneratorImpl>(100 + step), at::kDouble);
}

Tensor share_of(const Tensor& batch, const stiefel::Ranks& ranks) {
  const auto share = batch.size(0) / ranks.size();
  return batch.narrow(0, ranks.rank() * share, share);
}

TEST(GradientBuckets, AverageWhatOneProcessComputes) {
  const Net start;
  for (const int64_t size : {1, 2, 3, 4}) {
    // One bucket for each type, and one for each parameter.
    for (const int64_t bytes : {GradientBuckets::kBytes, int64_t{1}}) {
      std::vector<std::vector<Tensor>> found(static_cast<size_t>(size));
      std::atomic<int64_t> sums{0};
      run_ranks(size, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
        const auto world = std::make_shared<ThreadWorld>(ranks);
        const Net net(start);
        GradientBuckets buckets(world, net.parameters(), bytes);
        EXPECT_EQ(buckets.count(), bytes == 1 ? 5U : 2U);
        for (int64_t step = 0; step < 3; ++step) {
          net.zero_grad();
          buckets.begin();
          const auto before = world->sums;
          net.loss(share_of(images_of_step(step), *ranks)).backward();
          // Once it is known which parameters have gradients, every sum starts within the backward pass.
          if (step > 0) {
            EXPECT_EQ(world->sums - before, static_cast<int64_t>(buckets.count()));
          }
          buckets.finish();
          for (const auto& parameter : net.parameters()) {
            const auto& gradient = parameter.grad();
            found[static_cast<size_t>(ranks->rank())].push_back(gradient.defined() ? gradient.clone()
                                                                                   : gradient);
          }
        }
        sums += world->sums;
      });
      EXPECT_EQ(sums, size * 3 * (bytes == 1 ? 5 : 2));
      size_t at = 0;
      for (int64_t step = 0; step < 3; ++step) {
        const Net net(start);
        net.loss(images_of_step(step)).backward();
        for (const auto& parameter : net.parameters()) {
          for (const auto& of_rank : found) {
            ASSERT_EQ(of_rank[at].defined(), parameter.grad().defined());
            if (!of_rank[at].defined()) continue;
            const double tolerance = parameter.scalar_type() == at::kFloat ? 1e-6 : 1e-14;
            EXPECT_LT(support::distance(of_rank[at], parameter.grad()), tolerance);
            EXPECT_TRUE(of_rank[at].equal(found[0][at])) << "bit for bit between ranks";
          }
          ++at;
        }
      }
    }
  }
}

TEST(GradientBuckets, GradientsOfSomeRanksCountAsZeroOnTheOthers) {
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto a = torch::ones({2}, at::kDouble).requires_grad_();
    const auto b = torch::ones({3}, at::kDouble).requires_grad_();
    const auto world = std::make_shared<ThreadWorld>(ranks);
    GradientBuckets buckets(world, {a, b}, 1);
    for (int step = 0; step < 3; ++step) {
      a.mutable_grad() = b.mutable_grad() = Tensor();
      buckets.begin();
      const auto before = world->sums;
      (ranks->rank() == 1 ? 6 * a.sum() + 3 * b.sum() : 3 * b.sum()).backward();
      // Alike on all ranks, since a network may take sums of its own meanwhile: none at first, then b's.
      EXPECT_EQ(world->sums - before, step == 0 ? 0 : 1);
      buckets.finish();
      EXPECT_TRUE(a.grad().equal(torch::full({2}, 2.0, at::kDouble))) << a.grad();
      EXPECT_TRUE(b.grad().equal(torch::full({3}, 3.0, at::kDouble))) << b.grad();
    }
  });
}

TEST(GradientBuckets, AGradientThatNoRankHadAtFirstIsAnError) {
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto a = torch::ones({2}).requires_grad_();
    const auto b = torch::ones({3}).requires_grad_();
    GradientBuckets buckets(std::make_shared<ThreadWorld>(ranks), {a, b});
    buckets.begin();
    b.sum().backward();
    buckets.finish();
    EXPECT_FALSE(a.grad().defined());
    buckets.begin();
    const auto message = support::error_of([&] { (a.sum() + b.sum()).backward(); });
    EXPECT_NE(message.find("[2] had no gradient in the first step"), std::string::npos) << message;
  });
}

TEST(GradientBuckets, LeaveBackwardPassesAloneThatTheyWereNotToldOf) {
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto a = torch::ones({2}).requires_grad_();
    const auto rank = static_cast<double>(ranks->rank());
    {
      GradientBuckets buckets(std::make_shared<ThreadWorld>(ranks), {a});
      buckets.begin();
      (a.sum() * rank).backward();
      buckets.finish();
      EXPECT_EQ(a.grad()[0].item<double>(), 0.5);
      a.mutable_grad() = Tensor();
      (a.sum() * rank).backward();
      EXPECT_EQ(a.grad()[0].item<double>(), rank);
    }
    a.mutable_grad() = Tensor();
    (a.sum() * rank).backward();  // the hooks are gone
    EXPECT_EQ(a.grad()[0].item<double>(), rank);
  });
}

}  // namespace gradient_buckets_test
