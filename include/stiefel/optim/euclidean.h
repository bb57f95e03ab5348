#pragma once

#include <stiefel/detail/group_rate.h>
#include <stiefel/export.h>
#include <stiefel/optim/device_rates.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <unordered_map>
#include <vector>

/// torch's SGD, Adam, AdamW and RMSprop for the parameters beside orthonormal ones.
///
/// Each has torch's options, state and archives, and on the CPU takes torch's step. On an accelerator the
/// step reads rates and step counts there, so it can be captured into a CUDA graph (after it has been taken
/// once; call refresh_rates() before a replay when a rate has changed), and float32 parameters on CUDA are
/// updated all at once by LibTorch's fused kernels where it has them (2.3 and later).
namespace stiefel {

namespace detail {

/// What the four share: `Base` is torch's optimiser.
template <class Base>
class STIEFEL_API DeviceOptimizer : public Base, public DeviceRates {
 public:
  using Base::Base;

  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override;
  void refresh_rates() override;
  bool has_device_rates() const override;

  /// An archive that does not fit is an error and changes nothing.
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  /// Whether step_group() implements these options.
  virtual bool covers(const torch::optim::OptimizerOptions& options) const = 0;

  /// One step of the parameters of a group that have a gradient; all lie on accelerators.
  virtual void step_group(const torch::optim::OptimizerOptions& options,
                          const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                          GroupRate& rate) = 0;

 private:
  std::vector<GroupRate> rates_;  // of each group
};

/// Adam and AdamW differ in the weight decay alone.
///
/// On an accelerator the steps are counted there, because the replay of a captured step runs no host code;
/// save() brings the counts back.
template <class Base, class Options, class State>
class STIEFEL_API DeviceAdam : public DeviceOptimizer<Base> {
 public:
  using DeviceOptimizer<Base>::DeviceOptimizer;

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  bool covers(const torch::optim::OptimizerOptions& options) const override;
  void step_group(const torch::optim::OptimizerOptions& options, const std::vector<at::Tensor>& parameters,
                  const std::vector<at::Tensor>& gradients, GroupRate& rate) override;

 private:
  struct Count {
    State* state;
    at::Tensor steps;  // 0-dim float32, as the fused kernel takes it: exact up to 2²⁴
  };

  std::unordered_map<const void*, Count> counts_;  // of each parameter
};

}  // namespace detail

/// torch::optim::SGD.
class STIEFEL_API SGD : public detail::DeviceOptimizer<torch::optim::SGD> {
 public:
  using DeviceOptimizer::DeviceOptimizer;

 protected:
  bool covers(const torch::optim::OptimizerOptions& options) const override;
  void step_group(const torch::optim::OptimizerOptions& options, const std::vector<at::Tensor>& parameters,
                  const std::vector<at::Tensor>& gradients, detail::GroupRate& rate) override;
};

/// torch::optim::Adam. With amsgrad the step is torch's own on every device.
class STIEFEL_API Adam
    : public detail::DeviceAdam<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState> {
 public:
  using DeviceAdam::DeviceAdam;
};

/// torch::optim::AdamW. With amsgrad the step is torch's own on every device.
class STIEFEL_API AdamW : public detail::DeviceAdam<torch::optim::AdamW, torch::optim::AdamWOptions,
                                                    torch::optim::AdamWParamState> {
 public:
  using DeviceAdam::DeviceAdam;
};

/// torch::optim::RMSprop. With momentum, or centred, the step is torch's own on every device. (The archive's
/// step count, which torch writes and never reads, is not advanced on an accelerator.)
class STIEFEL_API RMSprop : public detail::DeviceOptimizer<torch::optim::RMSprop> {
 public:
  using DeviceOptimizer::DeviceOptimizer;

 protected:
  bool covers(const torch::optim::OptimizerOptions& options) const override;
  void step_group(const torch::optim::OptimizerOptions& options, const std::vector<at::Tensor>& parameters,
                  const std::vector<at::Tensor>& gradients, detail::GroupRate& rate) override;
};

}  // namespace stiefel
