#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <unordered_map>

#include "device_rates.h"

namespace stiefel::train {

/// torch's ADAM or AdamW, with torch's own state and archives, whose step on a GPU is a few kernels for all
/// parameters at once and reads the rate there. Elsewhere it is torch's step.
///
/// On a GPU the steps are counted there, because the replay of a captured step tells the host nothing; saving
/// brings the counts back.
template <class Adam, class Options, class State>
class DeviceAdamOf : public Adam, public DeviceRates {
 public:
  using Adam::Adam;

  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override;
  void refresh_rates() override;
  bool has_device_rates() const override;

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Count {
    State* state;
    at::Tensor steps;  // 0-dim float32, as the kernel wants it: exact to 2²⁴
  };

  GroupRates rates_;
  std::unordered_map<const void*, Count> counts_;  // of each parameter
};

/// ADAM, whose decay is part of the gradient.
using DeviceAdam = DeviceAdamOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;

/// AdamW, whose decay is apart from it: p ← (1 − lr·λ)p before the step.
using DeviceAdamW =
    DeviceAdamOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

}  // namespace stiefel::train
