#pragma once

#include <torch/nn/modules/container/any.h>
#include <torch/types.h>

namespace stiefel::models {

/// The building blocks that the networks are made of, in one place so that a comparison can exchange them for
/// every network at once.
class Layers {
 public:
  virtual ~Layers() = default;

  /// A square convolution without a bias, padded to keep the size at stride 1.
  virtual torch::nn::AnyModule convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) const;

  /// What follows a convolution: batch normalisation with scale and shift.
  virtual torch::nn::AnyModule normalisation(int64_t channels) const;
};

}  // namespace stiefel::models
