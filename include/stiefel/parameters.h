#pragma once

#include <stiefel/export.h>
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

/// Which parameters of a module go on the manifold by default:
///
/// - the weights of convolutions and linear layers with at least as many inputs as outputs, except the last
///   linear layer, whose scale a classifier needs;
/// - in attention, the projections of queries, keys and values, and of the output. Where the first three
///   lie in one weight (3E, E), it is one matrix with orthonormal columns, so that (q, k, v) is as long as
///   the input;
/// - in recurrent layers and cells, the weight from hidden to hidden. The gates of an LSTM or GRU lie in
///   one weight (4H, H) or (3H, H), one matrix with orthonormal columns, as orthogonal initialisation has it.
///
/// Grouped and transposed convolutions, recurrent weights from the input, biases, normalisation, embeddings,
/// and what needs no gradient stay Euclidean. A predicate, where given, decides instead. A parameter that two
/// modules share is listed once. Warns where it takes no parameter and no predicate says so.
STIEFEL_API ParameterSplit split_parameters(const torch::nn::Module& module,
                                            const ParameterPredicate& predicate = nullptr);

}  // namespace stiefel
