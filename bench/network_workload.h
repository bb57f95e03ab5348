#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads.h"

namespace stiefel::bench {

/// The activations that a network normalises: channels, height, width, and how many layers have them.
struct Activation {
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t count;
};

/// A network as the benchmarks take it: the weights that go on the manifold, and the activations that it
/// normalises.
struct NetworkWorkload {
  Workload weights;
  std::vector<Activation> activations;
};

/// By the name that models::make_classifier takes, for 32×32 images of three channels.
NetworkWorkload network_workload(const std::string& model);

}  // namespace stiefel::bench
