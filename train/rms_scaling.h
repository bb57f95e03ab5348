#pragma once

#include <stiefel/optim/device_rates.h>
#include <torch/optim/optimizer.h>

#include <vector>

namespace stiefel::train {

/// Divides gradients by their running root mean square, number by number, as RMSprop does, and moves nothing:
/// v ← 0.9v + 0.1|g|², g ← g/√(v + 1e-5). Put before another optimiser, it gives it the scaled gradient that
/// the first uRNN moved its unitary matrix along. An optimiser only so that checkpoints hold its v.
class RmsScaling : public torch::optim::Optimizer, public DeviceRates {
 public:
  explicit RmsScaling(std::vector<at::Tensor> parameters);

  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  void refresh_rates() override {}  // it has none
  bool has_device_rates() const override { return true; }

 private:
  std::vector<at::Tensor> squares_;  // v, beside each parameter
};

}  // namespace stiefel::train
