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

/// A network as the benchmarks see it: the weights that go on the manifold, and what its normalisation meets.
struct NetworkWorkload {
  Workload weights;
  std::vector<Activation> activations;
};

/// By the name that models::make_classifier takes, for 32×32 images of three channels.
NetworkWorkload network_workload(const std::string& model);

/// P×N, or a stack of B of them, written PxN or PxNxB. Throws std::invalid_argument where it is neither.
Workload shape_workload(const std::string& shape);

}  // namespace stiefel::bench
