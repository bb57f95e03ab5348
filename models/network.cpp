#include "network.h"

#include <stiefel/init.h>

namespace stiefel::models {

torch::nn::AnyModule Network::add(const std::string& name, torch::nn::AnyModule layer) {
  register_module(name, layer.ptr());
  return layer;
}

void Network::place_on_manifold() {
  for (auto& weight : split().manifold) init::haar_(weight);
}

int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace stiefel::models
