#include "device.h"

#include <torch/cuda.h>

#include <stdexcept>

namespace stiefel::train {

c10::Device choose_device(const std::string& name) {
  const bool cuda = torch::cuda::is_available();
  if (name == "cuda" && !cuda) {
    throw std::invalid_argument("--device is cuda, but this LibTorch sees no CUDA device; use --device cpu");
  }
  return name == "cuda" || (name == "auto" && cuda) ? c10::kCUDA : c10::kCPU;
}

}  // namespace stiefel::train
