#pragma once

#include <string>

/// Which of the mixed step's kernels a card takes. Plain C++, so that it is tested where there is no GPU.
namespace stiefel::cuda {

enum class MixedKernels {
  kNone,    ///< none: LibTorch's operators
  kAmpere,  ///< those for every card since Ampere
  kHopper,  ///< those for Hopper alone
};

struct KernelChoice {
  MixedKernels kernels;
  std::string reason;  ///< a sentence for people
};

/// For a card of the compute capability major.minor. `wanted` is "auto", or what was asked for in its place:
/// "hopper", "ampere" or "none". Throws std::invalid_argument where that is none of these, or where the card
/// cannot run it.
KernelChoice choose_kernels(int major, int minor, const std::string& wanted);

/// $STIEFEL_KERNELS, or "auto".
std::string wanted_kernels();

}  // namespace stiefel::cuda
