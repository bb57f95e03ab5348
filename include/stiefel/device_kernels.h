#pragma once

#include <c10/core/Device.h>
#include <stiefel/export.h>

#include <string>

namespace stiefel {

/// What this library has for a device.
struct STIEFEL_API DeviceKernels {
  /// What takes a step with precision(Precision::kMixed): "hopper", kernels for Hopper's matrix units;
  /// "ampere", kernels for every card since Ampere; "none", LibTorch's operators in full precision.
  std::string mixed_step;
  std::string reason;  ///< why, as a sentence

  /// The compute capability of an NVIDIA card; 0.0 for other devices, and where the library was built without
  /// CUDA.
  int major = 0, minor = 0;
};

/// The environment variable STIEFEL_KERNELS (auto, hopper, ampere, none) asks for others than the card's own,
/// for tests and comparisons. Throws where it names what there is not, or what the card cannot run.
STIEFEL_API DeviceKernels kernels_on(const c10::Device& device);

}  // namespace stiefel
