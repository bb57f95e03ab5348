#pragma once

#include <torch/optim/optimizer.h>
#include <torch/version.h>

#include <vector>

// Kernels that update many parameters at once and read the rate from the device; LibTorch has them since 2.3.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
#define STIEFEL_MULTI_TENSOR_STEPS 1
#else
#define STIEFEL_MULTI_TENSOR_STEPS 0
#endif

namespace stiefel::train {

/// An optimiser whose step on a GPU reads its rates from numbers that lie there, so that a step captured into
/// a CUDA graph follows a schedule.
class DeviceRates {
 public:
  virtual ~DeviceRates() = default;

  /// Writes the groups' rates to the device where they have changed. A step does so by itself; before the
  /// replay of a captured one it must be called.
  virtual void refresh_rates() = 0;

  /// Whether the parameters lie where a step reads its rates from the device.
  virtual bool has_device_rates() const = 0;
};

/// The rates of an optimiser's groups, a float32 number a group beside its parameters.
class GroupRates {
 public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;

  /// Whether these groups can be stepped by the kernels that read rates from the device.
  static bool suit(const Groups& groups);

  void refresh(const Groups& groups);

  /// The rate of a group, up to date.
  const at::Tensor& of(const Groups& groups, size_t group);

 private:
  struct Rate {
    at::Tensor tensor;
    double value = 0;
  };
  std::vector<Rate> rates_;
};

/// The parameters of a group that have a gradient, with what a step needs beside them.
struct Stepped {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
};
Stepped with_gradients(const torch::optim::OptimizerParamGroup& group);

/// A state tensor as the kernels want it: zeros where there is none yet, and the memory layout of the
/// parameter.
void lay_out(at::Tensor& state, const at::Tensor& parameter);

/// Refreshes the rates of any optimiser that keeps them on the device.
void refresh_rates(torch::optim::Optimizer& optimizer);

/// Whether a step of this optimiser takes nothing from the host that changes from step to step.
bool reads_rates_from_device(const torch::optim::Optimizer& optimizer);

}  // namespace stiefel::train
