#pragma once

#include "classifier.h"

namespace stiefel::models {

/// Four convolutions and a linear layer: small enough for a laptop, with every kind of layer the others have.
class SmallNet : public Network {
 public:
  SmallNet(const Shape& shape, const Layers& layers);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  torch::nn::AnyModule conv1_, norm1_, conv2_, norm2_, conv3_, norm3_, conv4_, norm4_, head_;
};

}  // namespace stiefel::models
