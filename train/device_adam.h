#pragma once

#include <torch/optim/adam.h>

#include <unordered_map>

#include "device_rates.h"

namespace stiefel::train {

/// torch's ADAM, with torch's own state and archives, whose step on a GPU is a few kernels for all parameters
/// at once and reads the rate there. Elsewhere it is torch's step.
///
/// On a GPU the steps are counted there, because the replay of a captured step tells the host nothing; saving
/// brings the counts back.
class DeviceAdam : public torch::optim::Adam, public DeviceRates {
 public:
  using Adam::Adam;

  at::Tensor step(LossClosure closure = nullptr) override;
  void refresh_rates() override;
  bool has_device_rates() const override;

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Count {
    torch::optim::AdamParamState* state;
    at::Tensor steps;  // 0-dim float32, as the kernel wants it: exact to 2²⁴
  };

  GroupRates rates_;
  std::unordered_map<const void*, Count> counts_;  // of each parameter
};

}  // namespace stiefel::train
