#include <gtest/gtest.h>
#include <stiefel/optim/cayley_sgd.h>
#include <stiefel/optim/euclidean.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <sstream>

// The optimisers of Euclidean parameters, on a GPU where there is one, against LibTorch's in double precision
// on the CPU. captured_steps_test has what can be shown of their steps on a device without a GPU.

namespace euclidean_optimizers_test {

at::Device here() { return torch::cuda::is_available() ? at::kCUDA : at::kCPU; }

/// Ten steps along the same gradients, at a rate that changes; after six of them ours are saved, and other
/// ones with other parameters read that and go on.
template <class Ours, class Theirs, class Options>
void expect_equal_steps(Options options, const char* what) {
  torch::manual_seed(5);
  std::vector<at::Tensor> reference;
  std::vector<at::Tensor> parameters;
  for (const auto& shape : {std::vector<int64_t>{6, 4, 3, 3}, {7, 5}, {9}, {1}}) {
    const auto x = torch::randn(shape, at::kDouble);
    reference.push_back(x.clone().set_requires_grad(true));
    parameters.push_back(x.to(here(), at::kFloat).set_requires_grad(true));
  }
  // A network's kernels lie channels-last.
  parameters[0] = parameters[0].detach().contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
  auto ours = std::make_unique<Ours>(parameters, options);
  Theirs theirs(reference, options);
  for (int step = 0; step < 10; ++step) {
    if (step == 6) {
      std::stringstream stored;
      torch::save(*ours, stored);
      for (auto& p : parameters) p = p.detach().clone().set_requires_grad(true);
      ours = std::make_unique<Ours>(parameters, options);
      torch::load(*ours, stored, here());
    }
    const double rate = options.lr() / (1 + step);
    for (auto& group : ours->param_groups()) group.options().set_lr(rate);
    for (auto& group : theirs.param_groups()) group.options().set_lr(rate);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto gradient = torch::randn_like(reference[i]);
      reference[i].mutable_grad() = gradient;
      parameters[i].mutable_grad() =
          gradient.to(here(), at::kFloat).contiguous(parameters[i].suggest_memory_format());
    }
    ours->step();
    theirs.step();
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto difference =
        (parameters[i].detach().cpu().to(at::kDouble) - reference[i].detach()).abs().max();
    EXPECT_LT(difference.item<double>(), 2e-5) << what << ", parameter " << i;
  }
}

TEST(EuclideanOptimizers, EqualTorchs) {
  namespace optim = torch::optim;
  for (const double decay : {0.0, 0.3}) {
    expect_equal_steps<stiefel::SGD, optim::SGD>(
        optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(decay), "SGD");
    expect_equal_steps<stiefel::SGD, optim::SGD>(optim::SGDOptions(0.1).weight_decay(decay),
                                                 "SGD without momentum");
    expect_equal_steps<stiefel::Adam, optim::Adam>(optim::AdamOptions(0.1).weight_decay(decay), "ADAM");
    expect_equal_steps<stiefel::AdamW, optim::AdamW>(optim::AdamWOptions(0.1).weight_decay(decay), "AdamW");
    expect_equal_steps<stiefel::RMSprop, optim::RMSprop>(
        optim::RMSpropOptions(0.1).alpha(0.9).weight_decay(decay), "RMSprop");
  }
}

TEST(EuclideanOptimizers, ADecayApartFromTheGradientIsAnotherOne) {
  const auto moved = [](auto make) {
    torch::manual_seed(1);
    std::vector<at::Tensor> parameters{torch::ones({4, 4}, at::device(here())).set_requires_grad(true)};
    const auto optimizer = make(parameters);
    for (int step = 0; step < 3; ++step) {
      parameters[0].mutable_grad() = torch::zeros_like(parameters[0]);
      optimizer->step();
    }
    return parameters[0].max().template item<double>();
  };
  // Without a gradient AdamW shrinks by 1 − lr·λ, and ADAM by its whole rate whatever λ is.
  const double apart = moved([](const auto& parameters) {
    return std::make_unique<stiefel::AdamW>(parameters, torch::optim::AdamWOptions(0.01).weight_decay(0.5));
  });
  const double within = moved([](const auto& parameters) {
    return std::make_unique<stiefel::Adam>(parameters, torch::optim::AdamOptions(0.01).weight_decay(0.5));
  });
  EXPECT_NEAR(apart, std::pow(1 - 0.01 * 0.5, 3), 1e-6);
  EXPECT_NEAR(within, 1 - 3 * 0.01, 1e-4);
}

/// Steps on LibTorch's meta device, whose tensors have no values: whatever reads one on the host throws. (Not
/// all LibTorch versions have RMSprop's operators there; captured_steps_test shows its step instead.)
template <class Optimizer, class Options>
void expect_no_host_reads(Options options) {
  std::vector<at::Tensor> parameters;
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf}) {
    parameters.push_back(torch::empty({3, 2}, at::dtype(type).device(at::kMeta)).requires_grad_());
  }
  Optimizer optimizer(parameters, options);
  EXPECT_TRUE(optimizer.has_device_rates());
  for (int step = 0; step < 3; ++step) {
    for (auto& group : optimizer.param_groups()) group.options().set_lr(0.1 / (1 + step));
    for (const auto& parameter : parameters) parameter.mutable_grad() = at::empty_like(parameter);
    EXPECT_NO_THROW(optimizer.step());
  }
}

TEST(EuclideanOptimizers, ReadNothingOnTheHostOffTheCpu) {
  namespace optim = torch::optim;
  expect_no_host_reads<stiefel::SGD>(optim::SGDOptions(0.1).momentum(0.9).dampening(0.1).weight_decay(0.3));
  expect_no_host_reads<stiefel::Adam>(optim::AdamOptions(0.1).weight_decay(0.3));
  expect_no_host_reads<stiefel::AdamW>(optim::AdamWOptions(0.1));
}

TEST(EuclideanOptimizers, TellWhereTheyReadTheirRates) {
  namespace optim = torch::optim;
  const std::vector<at::Tensor> meta{torch::empty({2}, at::kMeta).requires_grad_()};
  const std::vector<at::Tensor> cpu{torch::ones({2}).requires_grad_()};
  const auto reads = [](const optim::Optimizer& optimizer) { return stiefel::has_device_rates(optimizer); };
  EXPECT_TRUE(reads(stiefel::SGD(meta, optim::SGDOptions(0.1))));
  EXPECT_FALSE(reads(stiefel::SGD(cpu, optim::SGDOptions(0.1))));
  EXPECT_FALSE(reads(optim::SGD(meta, optim::SGDOptions(0.1))));
  EXPECT_FALSE(reads(stiefel::Adam(meta, optim::AdamOptions(0.1).amsgrad(true))));
  EXPECT_FALSE(reads(stiefel::RMSprop(meta, optim::RMSpropOptions(0.1).centered(true))));
  EXPECT_FALSE(reads(stiefel::RMSprop(meta, optim::RMSpropOptions(0.1).momentum(0.9))));
  const auto euclidean = stiefel::CayleySGDOptions(0.1).manifold(stiefel::Manifold::kEuclidean);
  EXPECT_TRUE(reads(stiefel::CayleySGD(meta, euclidean)));
  EXPECT_FALSE(reads(stiefel::CayleySGD(cpu, euclidean)));
}

TEST(EuclideanOptimizers, AreTorchsToTheBitOnTheCpu) {
  namespace optim = torch::optim;
  const auto run = [](auto make) {
    torch::manual_seed(7);
    std::vector<at::Tensor> parameters{torch::randn({5, 4}).requires_grad_()};
    const auto optimizer = make(parameters);
    for (int step = 0; step < 4; ++step) {
      optimizer->step([&] {
        parameters[0].mutable_grad() = torch::randn({5, 4});
        return torch::ones({});
      });
    }
    return parameters[0].detach();
  };
  const auto expect_equal = [&](auto ours, auto theirs) { EXPECT_TRUE(at::equal(run(ours), run(theirs))); };
  const auto sgd = optim::SGDOptions(0.1).momentum(0.9).dampening(0.2).weight_decay(0.01);
  expect_equal([&](const auto& p) { return std::make_unique<stiefel::SGD>(p, sgd); },
               [&](const auto& p) { return std::make_unique<optim::SGD>(p, sgd); });
  const auto adam = optim::AdamOptions(0.1).weight_decay(0.01).amsgrad(true);
  expect_equal([&](const auto& p) { return std::make_unique<stiefel::Adam>(p, adam); },
               [&](const auto& p) { return std::make_unique<optim::Adam>(p, adam); });
}

}  // namespace euclidean_optimizers_test
