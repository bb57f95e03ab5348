#pragma once

#include <vector>

#include "classifier.h"

namespace stiefel::models {

/// VGG with batch normalisation for 32×32 images (Simonyan and Zisserman 2015): five stages of 3×3
/// convolutions, each followed by normalisation and ReLU and each stage by a 2×2 maximum, then one linear
/// layer.
class Vgg : public Network {
 public:
  /// `depth` is 13, 16 or 19, counted as in the original with its three linear layers.
  Vgg(int64_t depth, const Shape& shape, const Layers& layers);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  struct Unit {
    torch::nn::AnyModule convolution;
    torch::nn::AnyModule normalization;
    bool ends_stage;
  };
  std::vector<Unit> units_;
  torch::nn::AnyModule head_;
};

}  // namespace stiefel::models
