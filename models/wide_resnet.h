#pragma once

#include <memory>
#include <vector>

#include "classifier.h"
#include "normalized_relu.h"

namespace stiefel::models {

/// A pre-activation basic block: normalise, ReLU, 3×3 convolution, twice, and a shortcut around them; a 1×1
/// convolution of the first activation where the width changes.
class BasicBlock : public torch::nn::Module {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, double dropout, const Layers& layers);

  /// Of the sum of the terms; the next normalisation adds those that it returns.
  Terms forward(const Terms& terms);

 private:
  torch::nn::AnyModule norm1_, conv1_, norm2_, conv2_, shortcut_;
  bool widens_;
  double dropout_;
};

/// Wide residual network d-k for 32×32 images (Zagoruyko and Komodakis 2016): three groups of (d − 4)/6 basic
/// blocks, 16k, 32k and 64k wide.
class WideResNet : public Network {
 public:
  WideResNet(int64_t depth, int64_t width, const Shape& shape, const Layers& layers);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  torch::nn::AnyModule stem_, norm_, head_;
  std::vector<std::shared_ptr<BasicBlock>> blocks_;
};

}  // namespace stiefel::models
