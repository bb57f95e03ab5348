#pragma once

#include <ATen/ATen.h>

#include <random>

namespace stiefel::bench {

/// Random gradients that cost no time: windows at random places of one long vector of normal numbers. Two
/// windows that are shifted against each other are as good as independent.
class Noise {
 public:
  /// The one that all methods share on a device.
  static Noise& shared(const at::Device& device = at::kCPU);

  /// A contiguous tensor of this shape.
  at::Tensor draw(at::IntArrayRef sizes);

 private:
  explicit Noise(const at::Device& device);
  at::Tensor values_;
  std::mt19937_64 random_{1};
};

}  // namespace stiefel::bench
