#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <sstream>

#include "train/device_adam.h"
#include "train/device_rmsprop.h"
#include "train/device_sgd.h"

// The optimisers of Euclidean parameters, on a GPU where there is one, against LibTorch's in double precision
// on the CPU.

namespace euclidean_steps_test {

using namespace stiefel::train;

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

TEST(EuclideanSteps, EqualTorchs) {
  using namespace torch::optim;
  for (const double decay : {0.0, 0.3}) {
    expect_equal_steps<DeviceSgd, SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(decay),
                                       "SGD");
    expect_equal_steps<DeviceSgd, SGD>(SGDOptions(0.1).weight_decay(decay), "SGD without momentum");
    expect_equal_steps<DeviceAdam, Adam>(AdamOptions(0.1).weight_decay(decay), "ADAM");
    expect_equal_steps<DeviceAdamW, AdamW>(AdamWOptions(0.1).weight_decay(decay), "AdamW");
    expect_equal_steps<DeviceRmsprop, RMSprop>(RMSpropOptions(0.1).alpha(0.9).weight_decay(decay), "RMSprop");
  }
}

TEST(EuclideanSteps, ADecayApartFromTheGradientIsAnotherOne) {
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
    return std::make_unique<DeviceAdamW>(parameters, torch::optim::AdamWOptions(0.01).weight_decay(0.5));
  });
  const double within = moved([](const auto& parameters) {
    return std::make_unique<DeviceAdam>(parameters, torch::optim::AdamOptions(0.01).weight_decay(0.5));
  });
  EXPECT_NEAR(apart, std::pow(1 - 0.01 * 0.5, 3), 1e-6);
  EXPECT_NEAR(within, 1 - 3 * 0.01, 1e-4);
}

}  // namespace euclidean_steps_test
