#include "pixel_network.h"

#include <ATen/ATen.h>

#include <utility>

namespace stiefel::train {

PixelNetwork::PixelNetwork(std::shared_ptr<models::Network> network, const data::Normalization& normalization,
                           at::ScalarType type)
    : network_(std::move(network)) {
  network_->eval();
  network_->to(type);
  for (auto& parameter : network_->parameters()) parameter.requires_grad_(false);
  const auto options = network_->parameters()[0].options();
  const auto of_channels = [&](const std::vector<double>& values) {
    return at::tensor(values, at::kDouble).view({1, -1, 1, 1}).to(options.device(), type);
  };
  mean_ = of_channels(normalization.mean);
  deviation_ = of_channels(normalization.deviation);
}

at::Tensor PixelNetwork::operator()(const at::Tensor& pixels) const {
  return network_->forward((pixels - mean_) / deviation_);
}

at::Tensor PixelNetwork::pixels_of(const at::Tensor& bytes) const {
  return bytes.to(mean_.device(), mean_.scalar_type()) / 255;
}

}  // namespace stiefel::train
