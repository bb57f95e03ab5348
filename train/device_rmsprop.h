#pragma once

#include <torch/optim/rmsprop.h>

#include "device_rates.h"

namespace stiefel::train {

/// torch's RMSprop, with torch's own state and archives, whose step on a GPU takes all parameters at once and
/// reads the rate there. Elsewhere it is torch's step, as it is with momentum or centred, which no method
/// here has.
///
/// (The archives' count of steps, which nothing reads, stays where a GPU found it.)
class DeviceRmsprop : public torch::optim::RMSprop, public DeviceRates {
 public:
  using RMSprop::RMSprop;

  at::Tensor step(LossClosure closure = nullptr) override;
  void refresh_rates() override;
  bool has_device_rates() const override;

 private:
  GroupRates rates_;
};

}  // namespace stiefel::train
