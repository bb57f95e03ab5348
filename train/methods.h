#pragma once

#include <stiefel/parameters.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runs/config.h"

namespace stiefel::train {

/// The optimisers that share a network's parameters; mostly one.
using Optimisers = std::vector<std::unique_ptr<torch::optim::Optimizer>>;

/// A way to train, selectable by `--optim`. To add one, write a function that makes its optimisers and give
/// it a line in methods().
struct Method {
  std::string name;
  double lr;                  ///< the default rate of Euclidean parameters
  double lr_manifold;         ///< of orthonormal weights, where it has any
  double beta2;               ///< ADAM's, for those that have it
  double sequence_lr;         ///< of Euclidean parameters in recurrent networks
  double pixel_lr_manifold;   ///< of their unitary matrix where the task is pixels,
  double memory_lr_manifold;  ///< and where it is copying or adding, whose gradients are small
  bool constrained;           ///< whether it keeps weights orthonormal
  bool retraction;  ///< whether it is a retraction, whose orthonormal weights have momentum only when asked
  std::function<Optimisers(const ParameterSplit&, const Config&)> make;
};

const std::vector<Method>& methods();

/// By name; throws std::invalid_argument listing the names where there is none.
const Method& find_method(const std::string& name);

/// How often a matrix was left in place for its gradient's sake.
int64_t skipped_steps(const Optimisers& optimisers);

}  // namespace stiefel::train
