#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "layers.h"

namespace stiefel::models {

/// A network that maps images (N, C, 32, 32) to class scores (N, classes).
class Classifier : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;

 protected:
  /// Registers a layer under a name and returns it.
  torch::nn::AnyModule add(const std::string& name, torch::nn::AnyModule layer);
};

/// What every network is told.
struct Shape {
  int64_t channels = 3;
  int64_t classes = 10;
  double dropout = 0;  ///< Wide ResNets only
};

/// Builds a network by its name: vgg-13, vgg-16, vgg-19, wrn-D-K, small. Throws std::invalid_argument naming
/// what there is where the name is none of these. Its weights are drawn from LibTorch's default generator.
std::shared_ptr<Classifier> make_classifier(const std::string& name, const Shape& shape,
                                            const Layers& layers = Layers());

/// The names that make_classifier takes, for help texts.
std::vector<std::string> classifier_names();

/// He's normal initialisation by fan-out for convolutions, zero biases, as the published networks have.
void initialise(torch::nn::Module& module);

/// The number of trained values.
int64_t parameter_count(const torch::nn::Module& module);

}  // namespace stiefel::models
