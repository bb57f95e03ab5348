#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

namespace stiefel {

/// One parameter of a module, and what split_parameters would do with it by default.
struct ParameterInfo {
  std::string name;  ///< as in module.named_parameters()
  at::Tensor tensor;
  bool on_manifold;  ///< the default choice
};

/// The parameters of a module, split for an optimiser's groups.
struct ParameterSplit {
  std::vector<at::Tensor> manifold;
  std::vector<at::Tensor> euclidean;
  std::vector<std::string> manifold_names;
  std::vector<std::string> euclidean_names;
};

/// Whether a parameter goes on the manifold; the last word.
using ParameterPredicate = std::function<bool(const ParameterInfo&)>;

/// Which parameters of a module go on the manifold: the weights of convolutions and linear layers with at
/// least as many inputs as outputs, except the last linear layer, whose scale a classifier needs. Grouped and
/// transposed convolutions, biases, normalisation, and what needs no gradient stay Euclidean. A predicate,
/// where given, decides instead. A parameter that two modules share is listed once.
ParameterSplit split_parameters(const torch::nn::Module& module,
                                const ParameterPredicate& predicate = nullptr);

}  // namespace stiefel
