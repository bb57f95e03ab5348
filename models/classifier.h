#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers.h"
#include "network.h"

namespace stiefel::models {

/// What every image network is told.
struct Shape {
  int64_t channels = 3;
  int64_t classes = 10;
  double dropout = 0;  ///< Wide ResNets only
};

/// Builds a network by its name: vgg-13, vgg-16, vgg-19, wrn-D-K, small, lip-D-W, lip-mlp-DxW. Throws
/// std::invalid_argument naming what there is where the name is none of these. Its weights are drawn from
/// LibTorch's default generator. The last two have layers of their own and take no `layers`.
std::shared_ptr<Network> make_classifier(const std::string& name, const Shape& shape,
                                         const Layers& layers = Layers());

/// The names that make_classifier takes, for help texts.
std::vector<std::string> classifier_names();

/// He's normal initialisation by fan-out for convolutions, zero biases, as the published networks have.
void initialize(torch::nn::Module& module);

}  // namespace stiefel::models
