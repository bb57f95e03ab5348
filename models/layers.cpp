#include "layers.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

namespace stiefel::models {

namespace nn = torch::nn;

nn::AnyModule Layers::convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) const {
  const auto options = nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
  return nn::AnyModule(nn::Conv2d(options));
}

nn::AnyModule Layers::normalisation(int64_t channels) const {
  return nn::AnyModule(nn::BatchNorm2d(channels));
}

}  // namespace stiefel::models
