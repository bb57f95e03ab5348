#pragma once

#include <memory>

#include "data/device_images.h"
#include "models/network.h"

namespace stiefel::train {

/// A trained network as a function of raw images, pixels from 0 to 1: their normalisation and the network in
/// evaluation mode, both in one type of numbers. Perturbations of an image have their length in these pixels.
class PixelNetwork {
 public:
  /// Converts the network, which then serves this object alone: its parameters need no gradient any more.
  PixelNetwork(std::shared_ptr<models::Network> network, const data::Normalization& normalization,
               at::ScalarType type);

  /// The scores (N, classes) of images (N, channels, 32, 32), with a gradient where these have one.
  at::Tensor operator()(const at::Tensor& pixels) const;

  /// Bytes as pixels from 0 to 1, in the type of the network.
  at::Tensor pixels_of(const at::Tensor& bytes) const;

  const models::Network& network() const { return *network_; }

  /// (x − mean)/deviation of each channel: what is subtracted, and by what is divided.
  const at::Tensor& mean() const { return mean_; }
  const at::Tensor& deviation() const { return deviation_; }

 private:
  std::shared_ptr<models::Network> network_;
  at::Tensor mean_, deviation_;  // (1, channels, 1, 1)
};

}  // namespace stiefel::train
