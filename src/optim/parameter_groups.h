#pragma once

#include <stiefel/optim/group_options.h>
#include <torch/optim/optimizer.h>

#include <vector>

#include "shared_steps.h"

/// What the files of ManifoldOptimizer read from parameter groups.
namespace stiefel::detail {

using torch::optim::OptimizerParamGroup;

/// Throws unless a group's options are of the optimiser's own type: read as that type, any others would be
/// nonsense.
void check_options(const OptimizerParamGroup& group, const torch::optim::OptimizerOptions& expected);

inline GroupOptions& options_of(OptimizerParamGroup& group) {
  return static_cast<GroupOptions&>(group.options());
}
inline const GroupOptions& options_of(const OptimizerParamGroup& group) {
  return static_cast<const GroupOptions&>(group.options());
}

/// Whether a parameter's type cannot hold an orthonormal matrix, so that it has a float32 master.
bool is_reduced(const at::Tensor& t);

/// All weights on the manifold that every rank has whole, in the order of the groups.
std::vector<SharedSteps::Weight> weights_on_manifold(const std::vector<OptimizerParamGroup>& groups);

}  // namespace stiefel::detail
