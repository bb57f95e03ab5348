#pragma once

#include <torch/optim/sgd.h>

#include "device_rates.h"

namespace stiefel::train {

/// torch's SGD, with torch's own state and archives, whose step on a GPU is a few kernels for all parameters
/// at once and reads the rate there. Elsewhere it is torch's step.
class DeviceSgd : public torch::optim::SGD, public DeviceRates {
 public:
  using SGD::SGD;

  at::Tensor step(LossClosure closure = nullptr) override;
  void refresh_rates() override;
  bool has_device_rates() const override { return GroupRates::suit(param_groups_); }

 private:
  GroupRates rates_;
};

}  // namespace stiefel::train
