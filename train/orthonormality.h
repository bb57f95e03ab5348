#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/classifier.h"
#include "train/resolve_config.h"

namespace stiefel::train {

/// A weight that a run keeps orthonormal, or presses to be so, and how far it is from that.
struct ConstrainedWeight {
  std::string name;
  int64_t p = 0;
  int64_t n = 0;
  double defect = 0;  ///< ‖XᴴX − I‖_F; with OMDSM the worst over its groups of rows
};

/// Whether a config constrains weights at all, by the optimiser, a parametrisation or a penalty.
bool constrains_weights(const Config& config);

/// Measures every such weight of a network.
std::vector<ConstrainedWeight> measure_orthonormality(const models::Network& model, const Config& config);

}  // namespace stiefel::train
