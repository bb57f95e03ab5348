#include "precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <stdexcept>

#include "train/tasks/task.h"

namespace stiefel::train {

namespace {

/// Turns the casting to bfloat16 on GPUs on or off.
void set_autocast(bool on) {
#if TORCH_VERSION_MAJOR >= 2
  at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCUDA, on);
#else
  at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
  at::autocast::set_enabled(on);
#endif
}

}  // namespace

std::string to_string(NetworkPrecision precision) {
  switch (precision) {
    case NetworkPrecision::kTf32:
      return "tf32";
    case NetworkPrecision::kBf16:
      return "bf16";
    case NetworkPrecision::kFp32:
      break;
  }
  return "fp32";
}

NetworkPrecision choose_precision(const Config& config, const c10::Device& device) {
  return choose_precision(config, device, kernels_on(device));
}

NetworkPrecision choose_precision(const Config& config, const c10::Device& device,
                                  const DeviceKernels& kernels) {
  const auto& name = config.precision;
  if (!device.is_cuda() && (name == "tf32" || name == "bf16")) {
    throw std::invalid_argument(fmt::format(
        "--precision is {}, which only a GPU has, but the device is the CPU; use fp32 or auto", name));
  }
  const bool is_old = kernels.major > 0 && kernels.major < 8;  // 0: not known
  if (is_old && (name == "tf32" || name == "bf16")) {
    throw std::invalid_argument(
        fmt::format("--precision is {}, which cards have from compute capability 8.0 (Ampere) on, and this "
                    "one has {}.{}; use "
                    "fp32 or auto",
                    name, kernels.major, kernels.minor));
  }
  if (name == "bf16") return NetworkPrecision::kBf16;
  if (name == "tf32") return NetworkPrecision::kTf32;
  // A state that passes through hundreds of products shows what TF32 rounds off.
  const bool rounds = name == "auto" && device.is_cuda() && !is_old && !is_sequence_task(config.task);
  return rounds ? NetworkPrecision::kTf32 : NetworkPrecision::kFp32;
}

TensorCoreScope::TensorCoreScope(NetworkPrecision precision, bool products)
    : convolutions_before_(at::globalContext().allowTF32CuDNN()),
      products_before_(at::globalContext().allowTF32CuBLAS()) {
  const bool tf32 = precision != NetworkPrecision::kFp32;
  at::globalContext().setAllowTF32CuDNN(tf32);
  at::globalContext().setAllowTF32CuBLAS(tf32 && products);
}

TensorCoreScope::~TensorCoreScope() {
  at::globalContext().setAllowTF32CuDNN(convolutions_before_);
  at::globalContext().setAllowTF32CuBLAS(products_before_);
}

AutocastScope::AutocastScope(NetworkPrecision precision) : on_(precision == NetworkPrecision::kBf16) {
  if (!on_) return;
  cached_before_ = at::autocast::is_autocast_cache_enabled();
  // Every weight is used once, so a cache of their casts would only hold memory.
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::increment_nesting();
  set_autocast(true);
}

AutocastScope::~AutocastScope() {
  if (!on_) return;
  set_autocast(false);
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_cache_enabled(cached_before_);
}

}  // namespace stiefel::train
