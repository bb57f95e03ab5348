#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "precision.h"

namespace stiefel::train {

/// While it lives, and the precision is bfloat16, the plain convolutions of a network have their weights in
/// bfloat16, cast in a few parts; and so are their gradients cast back, those of a part when the last of them
/// is there. One part takes the fewest launches, but then no gradient is there before all are. LibTorch's
/// autocast casts each by itself, which shows where there are fifty small ones. The parameters that the
/// network and its optimisers know stay as they are. For the forward pass.
class HalfWeights {
 public:
  HalfWeights(const torch::nn::Module& model, NetworkPrecision precision, int64_t parts = 1);
  ~HalfWeights();
  HalfWeights(const HalfWeights&) = delete;
  HalfWeights& operator=(const HalfWeights&) = delete;

 private:
  std::vector<std::pair<torch::nn::Conv2dImpl*, at::Tensor>> full_weights_;
};

}  // namespace stiefel::train
