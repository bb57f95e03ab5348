#pragma once

#include <stiefel/parameters.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>

#include <string>

namespace stiefel::models {

/// A network that maps a batch of inputs to scores: images (N, C, 32, 32) or sequences (N, T, D).
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor inputs) = 0;

  /// Which of its parameters a method that keeps weights orthonormal takes.
  virtual ParameterSplit split() const { return split_parameters(*this); }

  /// Draws the parameters of `split().manifold` on the manifold.
  void place_on_manifold();

 protected:
  /// Registers a layer under a name and returns it.
  torch::nn::AnyModule add(const std::string& name, torch::nn::AnyModule layer);
};

/// The number of trained values.
int64_t parameter_count(const torch::nn::Module& module);

}  // namespace stiefel::models
