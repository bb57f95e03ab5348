#pragma once

#include <stiefel/detail/group_rate.h>
#include <stiefel/optim/device_rates.h>
#include <stiefel/polar.h>
#include <torch/optim/sgd.h>

#include <vector>

namespace stiefel::train {

/// Muon without a constraint, for comparison: M ← βM + G, and a weight moves along the polar factor of M,
///
///     X ← (1 − l·decay)X − l·√max(1, c_out/n)·M(MᴴM)^(−½),
///
/// with n the entries per output channel (Jordan et al. 2024). The options are torch's SGD's; with `nesterov`
/// the direction is that of βM + G.
class Muon : public torch::optim::SGD, public DeviceRates {
 public:
  Muon(std::vector<torch::optim::OptimizerParamGroup> groups, const torch::optim::SGDOptions& defaults,
       PolarOptions polar = {});

  at::Tensor step(LossClosure closure = nullptr) override;
  void refresh_rates() override;
  bool has_device_rates() const override { return true; }

 private:
  PolarOptions polar_;
  std::vector<detail::GroupRate> rates_;  // of each group
};

}  // namespace stiefel::train
