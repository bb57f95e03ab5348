#pragma once

#include <c10/core/Device.h>
#include <stiefel/device_kernels.h>

#include <string>

#include "train/resolve_config.h"

namespace stiefel::train {

/// What a network counts with, forward and backward. Parameters, gradients, the loss, penalties and optimiser
/// steps are float32 in all of them.
enum class NetworkPrecision {
  kFp32,
  kTf32,  ///< convolutions (and a recurrent network's products) on tensor cores, 10 bits of mantissa
  kBf16,  ///< activations and convolutions in bfloat16
};

std::string to_string(NetworkPrecision precision);

/// What `--precision` means on a device; auto: TF32 for images on a GPU that has it, float32 otherwise.
/// Throws std::invalid_argument where the device has none.
NetworkPrecision choose_precision(const Config& config, const c10::Device& device);

/// The same for a device of which `kernels` tells the compute capability.
NetworkPrecision choose_precision(const Config& config, const c10::Device& device,
                                  const DeviceKernels& kernels);

/// While it lives, convolutions on a GPU run in the precision (and products in TF32 where `products` says
/// so). For the forward and the backward pass; an optimiser's step and what measures orthonormality must not
/// see it.
class TensorCoreScope {
 public:
  TensorCoreScope(NetworkPrecision precision, bool products);
  ~TensorCoreScope();
  TensorCoreScope(const TensorCoreScope&) = delete;
  TensorCoreScope& operator=(const TensorCoreScope&) = delete;

 private:
  bool convolutions_before_;
  bool products_before_;
};

/// While it lives, and the precision is bfloat16, operators on a GPU choose it where they can. For the
/// forward pass.
class AutocastScope {
 public:
  explicit AutocastScope(NetworkPrecision precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool on_;
  bool cached_before_ = true;
};

}  // namespace stiefel::train
