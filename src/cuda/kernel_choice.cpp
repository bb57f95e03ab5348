#include "kernel_choice.h"

#include <cstdlib>
#include <stdexcept>

namespace stiefel::cuda {

namespace {

[[noreturn]] void refuse(const std::string& wanted, const std::string& why) {
  throw std::invalid_argument("stiefel: STIEFEL_KERNELS is '" + wanted + "', " + why);
}

}  // namespace

KernelChoice choose_kernels(int major, int minor, const std::string& wanted) {
  const auto capability = std::to_string(major) + "." + std::to_string(minor);
  if (wanted == "none") return {MixedKernels::kNone, "LibTorch's operators, as STIEFEL_KERNELS=none asks"};
  if (wanted == "hopper") {
    if (major != 9) {
      refuse(wanted, "but this card's compute capability is " + capability +
                         " and those kernels are for 9.0; unset it, or use ampere or none");
    }
    return {MixedKernels::kHopper, "Hopper's kernels, as STIEFEL_KERNELS=hopper asks"};
  }
  if (wanted == "ampere") {
    if (major < 8) {
      refuse(wanted, "but this card's compute capability is " + capability +
                         " and those kernels are for 8.0 and later; unset it, or use none");
    }
    return {MixedKernels::kAmpere, "the kernels for cards since Ampere, as STIEFEL_KERNELS=ampere asks"};
  }
  if (wanted != "auto") refuse(wanted, "which is none of auto, hopper, ampere and none");
  if (major == 9) return {MixedKernels::kHopper, "Hopper's kernels (compute capability " + capability + ")"};
  if (major >= 8) {
    return {MixedKernels::kAmpere,
            "the kernels for cards since Ampere (compute capability " + capability + ")"};
  }
  return {MixedKernels::kNone,
          "LibTorch's operators: the kernels need compute capability 8.0, this card has " + capability};
}

std::string wanted_kernels() {
  const char* value = std::getenv("STIEFEL_KERNELS");
  return value == nullptr || *value == 0 ? "auto" : value;
}

}  // namespace stiefel::cuda
