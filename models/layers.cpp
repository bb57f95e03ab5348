#include "layers.h"

#include <stiefel/nn/decorrelated_batch_norm.h>
#include <stiefel/nn/parametrized.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "sync_batch_norm.h"

namespace stiefel::models {

using torch::nn::AnyModule;

namespace {

torch::nn::Conv2dOptions padded(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
}

}  // namespace

AnyModule Layers::convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) const {
  return AnyModule(torch::nn::Conv2d(padded(in, out, kernel, stride)));
}

AnyModule Layers::normalization(int64_t channels) const {
  return AnyModule(torch::nn::BatchNorm2d(channels));
}

AnyModule ConstrainedLayers::convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) const {
  // OMDSM takes more outputs than inputs in groups; for the others such a weight stays free, as it does under
  // an optimiser on the manifold.
  const bool wide = out <= in * kernel * kernel;
  if (!choice_.weights || (!wide && *choice_.weights != Parametrization::kOmdsm)) {
    return Layers::convolution(in, out, kernel, stride);
  }
  return AnyModule(nn::ParametrizedConv2d(padded(in, out, kernel, stride), *choice_.weights,
                                          OmdsmOptions{choice_.group_size}));
}

AnyModule ConstrainedLayers::normalization(int64_t channels) const {
  if (choice_.decorrelated) return AnyModule(nn::DecorrelatedBatchNorm2d(channels));
  if (!choice_.ranks_of_norm) return Layers::normalization(channels);
  return AnyModule(SyncBatchNorm2d(torch::nn::BatchNormOptions(channels), choice_.ranks_of_norm));
}

}  // namespace stiefel::models
