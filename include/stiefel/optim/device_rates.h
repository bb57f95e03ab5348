#pragma once

#include <stiefel/export.h>
#include <torch/optim/optimizer.h>

namespace stiefel {

/// An optimiser whose step on an accelerator reads its learning rates from tensors there, so that a step
/// captured into a CUDA graph follows a schedule. All optimisers of this library are.
class STIEFEL_API DeviceRates {
 public:
  virtual ~DeviceRates();

  /// Writes the groups' rates to the devices where they have changed. A step does so itself; the replay of a
  /// captured step does not, so call it before a replay when a rate has changed.
  virtual void refresh_rates() = 0;

  /// Whether a step reads its rates from the device: false where a parameter lies on the CPU, or where the
  /// options ask for a step that LibTorch takes with the host's numbers.
  virtual bool has_device_rates() const = 0;
};

/// The same for any optimiser: where it is no DeviceRates, nothing is written and the answer is false.
STIEFEL_API void refresh_rates(torch::optim::Optimizer& optimizer);
STIEFEL_API bool has_device_rates(const torch::optim::Optimizer& optimizer);

}  // namespace stiefel
