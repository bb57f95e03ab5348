#include "parameter_groups.h"

#include <c10/util/Type.h>

#include <typeinfo>

namespace stiefel::detail {

void check_options(const OptimizerParamGroup& group, const torch::optim::OptimizerOptions& expected) {
  const auto& options = group.options();
  TORCH_CHECK(typeid(options) == typeid(expected), "stiefel: a parameter group has options of the type ",
              c10::demangle(typeid(options).name()), ", but all groups of this optimizer take ",
              c10::demangle(typeid(expected).name()),
              "; a Euclidean group is one with .manifold(stiefel::Manifold::kEuclidean)");
}

bool is_reduced(const at::Tensor& t) {
  return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
}

std::vector<SharedSteps::Weight> weights_on_manifold(const std::vector<OptimizerParamGroup>& groups) {
  std::vector<SharedSteps::Weight> result;
  for (const auto& group : groups) {
    const auto& options = options_of(group);
    if (options.manifold() != Manifold::kStiefel || options.is_sharded()) continue;
    for (const auto& parameter : group.params()) result.push_back({parameter, options.batched()});
  }
  return result;
}

}  // namespace stiefel::detail
