#include "models/normalized_relu.h"

#include <torch/cuda.h>

#include <functional>
#include <limits>

#include "models/classifier.h"
#include "tests/support.h"

#if STIEFEL_HAS_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#endif

// relu(norm(x)) and its gradients against the formula in double on the CPU: by LibTorch's operators on the
// CPU, and on a GPU, where there is one, by the kernels.

namespace normalized_relu_test {

using at::Tensor;
using stiefel::models::normalized_relu;
using stiefel::models::pooled_relu;
using stiefel::models::summed_relu;
using torch::nn::AnyModule;

constexpr double kMomentum = 0.1, kEpsilon = 1e-5;

enum class Form { kPlain, kSummed, kPooled };

struct Case {
  int64_t batch, channels, side;
  Form form = Form::kPlain;
  double mean = 0.5;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const char* forms[] = {"plain", "summed", "pooled"};
  return out << c.batch << "×" << c.channels << "×" << c.side << "×" << c.side << ", "
             << forms[static_cast<int>(c.form)] << ", mean " << c.mean;
}

/// The numbers of a case, all of them such that the images' type holds them exactly.
struct Drawn {
  Case c;
  at::ScalarType type;
  Tensor x, addend, weight, bias;
  Tensor of_relu, of_sum;  ///< what each output counts for in the loss
};

Drawn draw(const Case& c, at::ScalarType type) {
  torch::manual_seed(c.batch * 1000 + c.channels);
  const int64_t out = c.form == Form::kPooled ? c.side / 2 : c.side;
  const auto images = [&](int64_t side, double mean) {
    // Spreads and means of their own for every channel.
    const auto spread = torch::rand({1, c.channels, 1, 1}) + 0.5;
    const auto all = torch::randn({c.batch, c.channels, side, side}) * spread + mean * spread;
    return all.to(type).to(at::kDouble).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const auto vector = [&](double around) {
    return (torch::randn({c.channels}) * 0.5 + around).to(at::kDouble);
  };
  return {c,           type,        images(c.side, c.mean), images(c.side, -0.2),
          vector(1.0), vector(0.1), images(out, 0.1),       images(c.side, 0)};
}

Tensor rounded(const Tensor& t, at::ScalarType type) {
  return t + (t.detach().to(type).to(at::kDouble) - t.detach());
}

struct Results {
  std::vector<std::string> names;
  std::vector<Tensor> values;

  void add(const std::string& name, const Tensor& value) {
    names.push_back(name);
    values.push_back(value.detach().to(at::kCPU, at::kDouble));
  }
};

/// By the formula. What passes between the operators is rounded as the images' type does it.
Results wanted(const Drawn& d) {
  const auto leaf = [](const Tensor& t) { return t.clone().requires_grad_(true); };
  const auto x = leaf(d.x), addend = leaf(d.addend), weight = leaf(d.weight), bias = leaf(d.bias);
  const auto sum = d.c.form == Form::kSummed ? rounded(x + addend, d.type) : x;
  const std::vector<int64_t> dims{0, 2, 3};
  const auto mean = sum.mean(dims, true);
  const auto variance = (sum - mean).square().mean(dims, true);
  const auto z =
      (sum - mean) / (variance + kEpsilon).sqrt() * weight.view({1, -1, 1, 1}) + bias.view({1, -1, 1, 1});
  auto relu = rounded(z, d.type).relu();
  if (d.c.form == Form::kPooled) relu = torch::max_pool2d(relu, 2);
  auto loss = (relu * d.of_relu).sum();
  if (d.c.form == Form::kSummed) loss = loss + (sum * d.of_sum).sum();
  loss.backward();
  Results results;
  const double count = static_cast<double>(d.x.numel() / d.c.channels);
  results.add("relu", relu);
  results.add("running mean", kMomentum * mean.flatten());
  results.add("running variance", 1 - kMomentum + kMomentum * variance.flatten() * count / (count - 1));
  results.add("∂x", x.grad());
  results.add("∂weight", weight.grad());
  results.add("∂bias", bias.grad());
  if (d.c.form != Form::kSummed) return results;
  results.add("sum", sum);
  results.add("∂addend", addend.grad());
  return results;
}

AnyModule norm_of(const Drawn& d, at::Device device) {
  torch::nn::BatchNorm2d norm(torch::nn::BatchNorm2dOptions(d.c.channels).momentum(kMomentum).eps(kEpsilon));
  const at::NoGradGuard no_grad;
  norm->weight.copy_(d.weight);
  norm->bias.copy_(d.bias);
  norm->to(device);
  return AnyModule(norm);
}

torch::nn::BatchNorm2dImpl& batch_norm(AnyModule& norm) {
  return *norm.ptr()->as<torch::nn::BatchNorm2dImpl>();
}

/// By the library, on a device.
Results found(const Drawn& d, at::Device device) {
  auto norm = norm_of(d, device);
  const auto here = [&](const Tensor& t) { return t.to(device, d.type); };
  const auto x = here(d.x).requires_grad_(true), addend = here(d.addend).requires_grad_(true);
  stiefel::models::SumAndRelu both;
  if (d.c.form == Form::kSummed) {
    both = summed_relu(norm, {x, addend});
  } else {
    both = {x, d.c.form == Form::kPooled ? pooled_relu(norm, x) : normalized_relu(norm, x)};
  }
  auto loss = (both.relu.to(at::kFloat) * here(d.of_relu)).sum();
  if (d.c.form == Form::kSummed) loss = loss + (both.sum.to(at::kFloat) * here(d.of_sum)).sum();
  loss.backward();
  auto& inside = batch_norm(norm);
  EXPECT_EQ(inside.num_batches_tracked.item<int64_t>(), 1);
  Results results;
  results.add("relu", both.relu);
  results.add("running mean", inside.running_mean);
  results.add("running variance", inside.running_var);
  results.add("∂x", x.grad());
  results.add("∂weight", inside.weight.grad());
  results.add("∂bias", inside.bias.grad());
  if (d.c.form != Form::kSummed) return results;
  results.add("sum", both.sum);
  results.add("∂addend", addend.grad());
  return results;
}

double relative(const Tensor& value, const Tensor& reference) {
  return (value - reference).norm().item<double>() / (reference.norm().item<double>() + 1e-30);
}

void expect_near(const Results& results, const Results& reference, double tolerance) {
  ASSERT_EQ(results.names, reference.names);
  for (size_t i = 0; i < results.names.size(); ++i) {
    ASSERT_EQ(results.values[i].sizes(), reference.values[i].sizes()) << results.names[i];
    EXPECT_LT(relative(results.values[i], reference.values[i]), tolerance) << results.names[i];
  }
}

/// Every count of channels that a network here has, one that is no multiple of 64, one that leaves threads of
/// a block over; few pixels, and so many that a thread has several rounds of them.
std::vector<Case> cases(Form form) {
  struct Size {
    int64_t batch, channels, side;
  };
  const Size sizes[] = {{64, 16, 32}, {16, 32, 16}, {128, 64, 32}, {128, 128, 16},
                        {4, 160, 32}, {4, 256, 8},  {3, 320, 16},  {128, 512, 2},
                        {5, 640, 8},  {7, 24, 6},   {2, 8, 2},     {9, 136, 4}};
  std::vector<Case> all;
  for (const auto& size : sizes) all.push_back({size.batch, size.channels, size.side, form});
  return all;
}

class NormalizedRelu : public ::testing::TestWithParam<Form> {};

TEST_P(NormalizedRelu, IsTheFormulaOnTheCpu) {
  for (const auto& c : {Case{6, 24, 8, GetParam()}, Case{3, 16, 4, GetParam()}}) {
    SCOPED_TRACE(c);
    const auto drawn = draw(c, at::kFloat);
    expect_near(found(drawn, at::kCPU), wanted(drawn), 1e-5);
  }
}

/// Of millions of numbers one or two lie so near to zero that float and double differ on their ReLU.
TEST_P(NormalizedRelu, IsTheFormulaOnAGpuInFloat) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  for (const auto& c : cases(GetParam())) {
    SCOPED_TRACE(c);
    const auto drawn = draw(c, at::kFloat);
    expect_near(found(drawn, at::kCUDA), wanted(drawn), 5e-4);
  }
}

/// A bfloat16 has eight bits, so what is stored in one is off by 2⁻⁹ at most.
TEST_P(NormalizedRelu, IsTheFormulaOnAGpuInBfloat16) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  for (const auto& c : cases(GetParam())) {
    SCOPED_TRACE(c);
    const auto drawn = draw(c, at::kBFloat16);
    expect_near(found(drawn, at::kCUDA), wanted(drawn), 4e-3);
  }
}

/// The variance of numbers a thousand times as large keeps its digits.
TEST_P(NormalizedRelu, BearsAMeanFarFromZero) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const auto drawn = draw({32, 64, 16, GetParam(), 1000}, at::kFloat);
  // float itself keeps 6e-5 of a deviation there, so one ReLU in ten thousand lets through what it should
  // not.
  expect_near(found(drawn, at::kCUDA), wanted(drawn), 3e-2);
}

TEST_P(NormalizedRelu, IsTheSameEveryTimeOnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  const auto drawn = draw({64, 160, 16, GetParam()}, at::kBFloat16);
  const auto first = found(drawn, at::kCUDA);
  for (int i = 0; i < 20; ++i) {
    const auto again = found(drawn, at::kCUDA);
    for (size_t j = 0; j < first.values.size(); ++j) {
      EXPECT_TRUE(at::equal(first.values[j], again.values[j])) << first.names[j];
    }
  }
}

TEST_P(NormalizedRelu, KeepsANaN) {
  for (const auto device : {at::kCPU, at::kCUDA}) {
    if (device == at::kCUDA && !torch::cuda::is_available()) continue;
    auto drawn = draw({4, 16, 4, GetParam()}, at::kFloat);
    drawn.x[1][3][2][2] = std::numeric_limits<double>::quiet_NaN();
    const auto results = found(drawn, device);
    EXPECT_TRUE(results.values[0].select(1, 3).isnan().all().item<bool>());
    EXPECT_FALSE(results.values[0].select(1, 4).isnan().any().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, NormalizedRelu,
                         ::testing::Values(Form::kPlain, Form::kSummed, Form::kPooled));

class OnAGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no GPU";
  }
};

using NormalizedReluOnAGpu = OnAGpu;

/// Odd sides, images that are not channels-last, channels that are no multiple of eight, a norm that is not
/// in training: all as LibTorch's operators have it.
TEST_F(NormalizedReluOnAGpu, LeavesTheRestToLibTorch) {
  const auto check = [](const Tensor& x, bool training, bool pooled) {
    auto drawn = draw({1, x.size(1), 2}, at::kFloat);
    auto norm = norm_of(drawn, at::kCUDA), other = norm_of(drawn, at::kCUDA);
    norm.ptr()->train(training);
    other.ptr()->train(training);
    // A clone begins where 16 bytes begin: cuDNN's norm ends the program where x does not.
    const auto relu = other.forward(x.clone()).relu();
    const auto found = pooled ? pooled_relu(norm, x) : normalized_relu(norm, x);
    EXPECT_TRUE(at::allclose(found, pooled ? torch::max_pool2d(relu, 2) : relu, 1e-4, 1e-5)) << x.sizes();
  };
  const auto last = at::MemoryFormat::ChannelsLast;
  check(torch::randn({4, 16, 5, 7}, at::kCUDA).contiguous(last), true, true);
  check(torch::randn({4, 16, 6, 6}, at::kCUDA), true, false);
  check(torch::randn({4, 12, 6, 6}, at::kCUDA).contiguous(last), true, false);
  check(torch::randn({4, 16, 6, 6}, at::kCUDA).contiguous(last), false, false);
  // Channels-last, and not where 16 bytes begin: copied.
  check(torch::randn({4 * 16 * 36 + 1}, at::kCUDA).as_strided({4, 16, 6, 6}, {576, 1, 96, 16}, 1), true,
        false);
  auto other = norm_of(draw({1, 16, 2}, at::kFloat), at::kCUDA);
  EXPECT_THROW(normalized_relu(other, torch::randn({4, 64, 6, 6}, at::kCUDA).contiguous(last)), c10::Error);
}

/// A gradient that is one number expanded, or not channels-last; of the sum alone.
TEST_F(NormalizedReluOnAGpu, TakesAnyGradient) {
  const auto drawn = draw({4, 16, 6}, at::kFloat);
  const auto gradient_of = [&](const std::function<Tensor(const Tensor& sum, const Tensor& relu)>& loss) {
    auto norm = norm_of(drawn, at::kCUDA);
    const auto x = drawn.x.to(at::kCUDA, at::kFloat).requires_grad_(true);
    const auto both = summed_relu(norm, {x, x.detach()});
    loss(both.sum, both.relu).backward();
    return x.grad().clone();
  };
  const auto weights = torch::randn({4, 16, 6, 6}, at::kCUDA);
  const auto last = weights.contiguous(at::MemoryFormat::ChannelsLast);
  const auto ones = torch::ones_like(last);
  EXPECT_TRUE(at::equal(gradient_of([&](auto, auto relu) { return (relu * weights).sum(); }),
                        gradient_of([&](auto, auto relu) { return (relu * last).sum(); })));
  EXPECT_TRUE(at::equal(gradient_of([&](auto, auto relu) { return relu.sum(); }),
                        gradient_of([&](auto, auto relu) { return (relu * ones).sum(); })));
  EXPECT_TRUE(at::equal(gradient_of([&](auto sum, auto) { return (sum * last).sum(); }), last));
}

/// A gradient that lies behind another number, and so not where 16 bytes begin.
TEST_F(NormalizedReluOnAGpu, TakesAGradientFromAnyPlace) {
  const auto drawn = draw({4, 16, 2}, at::kFloat);
  const auto weights = torch::randn({65}, at::kCUDA);
  std::vector<Tensor> gradients;
  for (const bool behind : {false, true}) {
    auto norm = norm_of(drawn, at::kCUDA);
    const auto x = drawn.x.to(at::kCUDA, at::kFloat).requires_grad_(true);
    const auto flat = pooled_relu(norm, x).flatten();
    const auto all = behind ? torch::cat({torch::zeros({1}, at::kCUDA), flat}) * weights
                            : flat * weights.narrow(0, 1, 64).clone();
    all.sum().backward();
    gradients.push_back(x.grad().clone());
  }
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
}

/// A step of a whole network in float: the loss and every gradient. The CPU's own gradients in float and in
/// double differ by up to 2 % here, for the ReLUs that they differ on.
TEST_F(NormalizedReluOnAGpu, TrainsNetworksAsTheCpuDoes) {
  const bool before = at::globalContext().allowTF32CuDNN();
  at::globalContext().setAllowTF32CuDNN(false);
  for (const std::string name : {"vgg-13", "wrn-16-2", "small"}) {
    torch::manual_seed(3);
    const auto net = stiefel::models::make_classifier(name, {3, 10, 0});
    const auto images = torch::randn({16, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
    const auto labels = torch::arange(16) % 10;
    std::vector<std::vector<Tensor>> all;
    for (const auto& [device, type] : {std::pair{at::kCPU, at::kDouble}, std::pair{at::kCUDA, at::kFloat}}) {
      net->to(device, type);
      for (const auto& module : net->modules()) {
        auto* norm = module->as<torch::nn::BatchNorm2dImpl>();
        if (norm) norm->num_batches_tracked.set_data(norm->num_batches_tracked.to(at::kLong));
      }
      for (auto& p : net->parameters()) {
        if (p.dim() == 4) p.set_data(p.data().contiguous(at::MemoryFormat::ChannelsLast));
        p.mutable_grad() = Tensor();
      }
      const auto loss =
          torch::nll_loss(net->forward(images.to(device, type)).log_softmax(1), labels.to(device));
      loss.backward();
      std::vector<Tensor> values{loss.detach().to(at::kCPU, at::kDouble)};
      for (const auto& p : net->parameters()) values.push_back(p.grad().to(at::kCPU, at::kDouble));
      all.push_back(values);
    }
    for (size_t i = 0; i < all[0].size(); ++i)
      EXPECT_LT(relative(all[1][i], all[0][i]), 0.1) << name << " " << i;
  }
  at::globalContext().setAllowTF32CuDNN(before);
}

#if STIEFEL_HAS_CUDA
/// Replayed, it counts from zero each time.
TEST_F(NormalizedReluOnAGpu, RunsInAGraph) {
  const auto drawn = draw({32, 160, 16, Form::kSummed}, at::kBFloat16);
  auto norm = norm_of(drawn, at::kCUDA);
  const auto side = at::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(side);
  const auto here = [&](const Tensor& t) { return t.to(at::kCUDA, at::kBFloat16); };
  const auto x = here(drawn.x).requires_grad_(true);
  const auto addend = here(drawn.addend);
  const auto weights = here(drawn.of_relu);
  const auto step = [&] {
    const auto both = summed_relu(norm, {x, addend});
    auto gradients = torch::autograd::grad({(both.relu * weights).sum()}, {x, batch_norm(norm).weight});
    gradients.push_back(both.relu.detach());
    return gradients;
  };
  step();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const auto recorded = step();
  graph.capture_end();
  {
    const at::NoGradGuard no_grad;
    x.mul_(0.5);
  }
  for (int i = 0; i < 5; ++i) graph.replay();
  const auto direct = step();
  side.synchronize();
  for (size_t i = 0; i < direct.size(); ++i) EXPECT_TRUE(at::equal(recorded[i], direct[i])) << i;
}
#endif

}  // namespace normalized_relu_test
