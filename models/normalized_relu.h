#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/any.h>

/// Normalisation and the ReLU after it: relu(norm(x)), what stands between the convolutions of every network
/// here. A batch norm in training, of channels-last images on a GPU, takes two kernels forward and two back
/// (models/cuda/normalized_relu_kernels.h), with the sum before it or the maximum after it; any other
/// normalisation, device or layout takes LibTorch's operators. The kernels can be differentiated once.
namespace stiefel::models {

at::Tensor normalized_relu(torch::nn::AnyModule& norm, const at::Tensor& x);

/// The largest of each 2×2 square of relu(norm(x)).
at::Tensor pooled_relu(torch::nn::AnyModule& norm, const at::Tensor& x);

/// Two terms that are yet to be added, as a residual block leaves them. Without a shortcut there is one.
struct Terms {
  at::Tensor branch;
  at::Tensor shortcut;
};

struct SumAndRelu {
  at::Tensor sum;
  at::Tensor relu;  ///< relu(norm(sum))
};
SumAndRelu summed_relu(torch::nn::AnyModule& norm, const Terms& terms);

}  // namespace stiefel::models
