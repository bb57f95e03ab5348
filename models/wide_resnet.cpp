#include "wide_resnet.h"

#include <torch/nn/modules/linear.h>

#include <stdexcept>

namespace stiefel::models {

using torch::nn::AnyModule;

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, double dropout, const Layers& layers)
    : widens_(in != out || stride != 1), dropout_(dropout) {
  const auto add = [&](const char* name, AnyModule layer) {
    register_module(name, layer.ptr());
    return layer;
  };
  norm1_ = add("norm1", layers.normalization(in));
  conv1_ = add("conv1", layers.convolution(in, out, 3, stride));
  norm2_ = add("norm2", layers.normalization(out));
  conv2_ = add("conv2", layers.convolution(out, out, 3, 1));
  if (widens_) shortcut_ = add("shortcut", layers.convolution(in, out, 1, stride));
}

Terms BasicBlock::forward(const Terms& terms) {
  const auto [x, first] = summed_relu(norm1_, terms);
  auto y = normalized_relu(norm2_, conv1_.forward(first));
  if (dropout_ > 0) y = torch::dropout(y, dropout_, is_training());
  return {conv2_.forward(y), widens_ ? shortcut_.forward(first) : x};
}

WideResNet::WideResNet(int64_t depth, int64_t width, const Shape& shape, const Layers& layers) {
  if (depth < 10 || (depth - 4) % 6 != 0 || width < 1) {
    throw std::invalid_argument(
        "a Wide ResNet d-k needs d = 6N + 4 with N ≥ 1 and k ≥ 1 (16-4, 28-10, 52-1); got " +
        std::to_string(depth) + "-" + std::to_string(width));
  }
  const int64_t per_group = (depth - 4) / 6;
  int64_t in = 16;
  stem_ = add("stem", layers.convolution(shape.channels, in, 3, 1));
  for (int64_t group = 0; group < 3; ++group) {
    const int64_t out = (16 << group) * width;
    for (int64_t i = 0; i < per_group; ++i) {
      const int64_t stride = group > 0 && i == 0 ? 2 : 1;
      blocks_.push_back(
          register_module("block" + std::to_string(blocks_.size()),
                          std::make_shared<BasicBlock>(in, out, stride, shape.dropout, layers)));
      in = out;
    }
  }
  norm_ = add("norm", layers.normalization(in));
  head_ = add("head", AnyModule(torch::nn::Linear(in, shape.classes)));
}

torch::Tensor WideResNet::forward(torch::Tensor x) {
  Terms terms{stem_.forward(x), {}};
  for (auto& block : blocks_) terms = block->forward(terms);
  return head_.forward(summed_relu(norm_, terms).relu.mean({2, 3}));
}

}  // namespace stiefel::models
