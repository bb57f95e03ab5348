#include "small_net.h"

#include <torch/nn/modules/linear.h>

#include "normalized_relu.h"

namespace stiefel::models {

SmallNet::SmallNet(const Shape& shape, const Layers& layers) {
  conv1_ = add("conv1", layers.convolution(shape.channels, 16, 5, 2));
  norm1_ = add("norm1", layers.normalization(16));
  conv2_ = add("conv2", layers.convolution(16, 32, 3, 1));
  norm2_ = add("norm2", layers.normalization(32));
  conv3_ = add("conv3", layers.convolution(32, 64, 3, 2));
  norm3_ = add("norm3", layers.normalization(64));
  conv4_ = add("conv4", layers.convolution(64, 64, 3, 1));
  norm4_ = add("norm4", layers.normalization(64));
  head_ = add("head", torch::nn::AnyModule(torch::nn::Linear(256, shape.classes)));
}

torch::Tensor SmallNet::forward(torch::Tensor x) {
  x = normalized_relu(norm1_, conv1_.forward(x));
  x = normalized_relu(norm2_, conv2_.forward(x));
  x = normalized_relu(norm3_, conv3_.forward(x));
  x = normalized_relu(norm4_, conv4_.forward(x));
  return head_.forward(torch::adaptive_avg_pool2d(x, {2, 2}).flatten(1));
}

}  // namespace stiefel::models
