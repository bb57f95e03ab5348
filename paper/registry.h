#pragma once

#include <string>
#include <vector>

#include "experiment.h"

namespace stiefel::paper {

/// All experiments in the paper's order.
const std::vector<Experiment>& experiments();

/// Throws std::invalid_argument listing the names where there is none.
const Experiment& find_experiment(const std::string& name);

}  // namespace stiefel::paper
