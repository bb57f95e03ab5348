#include "lipschitz_net.h"

#include <stiefel/init.h>

#include <cmath>
#include <regex>
#include <stdexcept>

#include "lipschitz_layers.h"

namespace stiefel::models {

namespace {

constexpr int64_t kImageSide = 32;
constexpr int64_t kDefaultPatch = 4;
constexpr int64_t kPool = 4;
constexpr int64_t kDenseLayers = 2;

const std::regex kMlpName("lip-mlp-([1-9]\\d{0,2})x([1-9]\\d{0,4})");
const std::regex kNetName("lip-([1-9]\\d{0,2})-([1-9]\\d{0,4})(?:-([1248]))?");

/// A layer whose weight is orthonormal and whose bias is zero.
template <class Layer>
Layer orthonormal(Layer layer) {
  init::haar_(layer->weight);
  const torch::NoGradGuard no_grad;
  layer->bias.zero_();
  return layer;
}

torch::nn::Linear dense(int64_t in, int64_t out) { return orthonormal(torch::nn::Linear(in, out)); }

torch::nn::Conv2d pixel_mixing(int64_t in, int64_t out) {
  return orthonormal(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1)));
}

/// The same mixing at every pixel. The bias is divided by the root of their number: then a change of it moves
/// an item by as much as itself, whatever the size of the image, and one rate suits the biases of all layers.
at::Tensor mix(const torch::nn::Conv2d& layer, const at::Tensor& x) {
  const auto pixels = static_cast<double>(x.size(2) * x.size(3));
  return at::conv2d(x, layer->weight, layer->bias / std::sqrt(pixels));
}

}  // namespace

ParameterSplit LipschitzNetwork::split() const {
  return split_parameters(*this, [](const ParameterInfo& info) { return info.tensor.dim() >= 2; });
}

LipschitzMlp::LipschitzMlp(int64_t depth, int64_t width, const Shape& shape) {
  int64_t in = shape.channels * kImageSide * kImageSide;
  for (int64_t i = 0; i < depth; ++i) {
    layers_.push_back(register_module("dense" + std::to_string(i), dense(in, width)));
    in = width;
  }
  layers_.push_back(register_module("head", dense(in, shape.classes)));
}

torch::Tensor LipschitzMlp::forward(torch::Tensor x) {
  x = layers_[0]->forward(x.flatten(1));
  for (size_t i = 1; i < layers_.size(); ++i) x = layers_[i]->forward(fold(x));
  return x;
}

std::vector<LipschitzNetwork::Mixing> LipschitzMlp::mixings() const {
  std::vector<Mixing> all;
  for (const auto& layer : layers_) all.push_back({layer->weight, layer->bias});
  return all;
}

LipschitzNet::LipschitzNet(int64_t depth, int64_t width, int64_t patch, const Shape& shape) : patch_(patch) {
  if (width % 8 != 0) {
    throw std::invalid_argument("lip-D-W shifts eighths of its channels, so W must be a multiple of 8; got " +
                                std::to_string(width));
  }
  int64_t in = shape.channels * patch * patch;
  for (int64_t i = 0; i < depth; ++i) {
    pixel_mixings_.push_back(register_module("mixing" + std::to_string(i), pixel_mixing(in, width)));
    in = width;
  }
  pixel_mixings_.push_back(register_module("pool", pixel_mixing(width * kPool * kPool, width)));
  const int64_t left = kImageSide / patch / kPool;
  in = width * left * left;
  for (int64_t i = 0; i < kDenseLayers; ++i) {
    dense_.push_back(register_module("dense" + std::to_string(i), dense(in, width)));
    in = width;
  }
  dense_.push_back(register_module("head", dense(in, shape.classes)));
}

torch::Tensor LipschitzNet::forward(torch::Tensor x) {
  x = space_to_depth(x, patch_);
  for (size_t i = 0; i + 1 < pixel_mixings_.size(); ++i) x = fold_and_shift(mix(pixel_mixings_[i], x));
  x = mix(pixel_mixings_.back(), space_to_depth(x, kPool)).flatten(1);
  for (const auto& layer : dense_) x = at::linear(fold(x), layer->weight, layer->bias);
  return x;
}

std::vector<LipschitzNetwork::Mixing> LipschitzNet::mixings() const {
  std::vector<Mixing> all;
  for (const auto& layer : pixel_mixings_) all.push_back({layer->weight, layer->bias});
  for (const auto& layer : dense_) all.push_back({layer->weight, layer->bias});
  return all;
}

bool is_lipschitz(const std::string& name) {
  return std::regex_match(name, kMlpName) || std::regex_match(name, kNetName);
}

std::shared_ptr<LipschitzNetwork> make_lipschitz(const std::string& name, const Shape& shape) {
  std::smatch match;
  if (std::regex_match(name, match, kMlpName)) {
    return std::make_shared<LipschitzMlp>(std::stoll(match[1]), std::stoll(match[2]), shape);
  }
  if (std::regex_match(name, match, kNetName)) {
    const int64_t patch = match[3].matched ? std::stoll(match[3]) : kDefaultPatch;
    return std::make_shared<LipschitzNet>(std::stoll(match[1]), std::stoll(match[2]), patch, shape);
  }
  throw std::invalid_argument(
      "no Lipschitz-bounded network is called '" + name +
      "'; there are lip-mlp-DxW and lip-D-W or lip-D-W-P, P being 1, 2, 4 or 8, for example "
      "lip-6-64");
}

}  // namespace stiefel::models
