#pragma once

#include <ATen/ATen.h>

#include <random>

namespace stiefel::bench {

/// Random gradients for nothing: windows at random places of one long vector of normal numbers. Two windows
/// that are shifted against each other are as good as independent, and no method pays for drawing them.
class Noise {
 public:
  /// The one that all methods share.
  static Noise& shared();

  /// A contiguous tensor of this shape.
  at::Tensor draw(at::IntArrayRef sizes);

 private:
  Noise();
  at::Tensor values_;
  std::mt19937_64 random_{1};
};

}  // namespace stiefel::bench
