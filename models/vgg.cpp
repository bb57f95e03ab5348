#include "vgg.h"

#include <torch/nn/modules/linear.h>

#include <array>
#include <stdexcept>

#include "normalized_relu.h"

namespace stiefel::models {

namespace {

constexpr int kStages = 5;
constexpr std::array<int64_t, kStages> kWidths{64, 128, 256, 512, 512};

std::array<int, kStages> convolutions_per_stage(int64_t depth) {
  switch (depth) {
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      throw std::invalid_argument("VGG has 13, 16 or 19 layers, not " + std::to_string(depth));
  }
}

}  // namespace

Vgg::Vgg(int64_t depth, const Shape& shape, const Layers& layers) {
  const auto counts = convolutions_per_stage(depth);
  int64_t in = shape.channels;
  for (int stage = 0; stage < kStages; ++stage) {
    for (int i = 0; i < counts[stage]; ++i) {
      const auto index = std::to_string(units_.size());
      units_.push_back({add("conv" + index, layers.convolution(in, kWidths[stage], 3, 1)),
                        add("norm" + index, layers.normalization(kWidths[stage])), i + 1 == counts[stage]});
      in = kWidths[stage];
    }
  }
  head_ = add("head", torch::nn::AnyModule(torch::nn::Linear(in, shape.classes)));
}

torch::Tensor Vgg::forward(torch::Tensor x) {
  for (auto& unit : units_) {
    x = unit.convolution.forward(x);
    x = unit.ends_stage ? pooled_relu(unit.normalization, x) : normalized_relu(unit.normalization, x);
  }
  return head_.forward(x.flatten(1));
}

}  // namespace stiefel::models
