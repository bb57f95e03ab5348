#pragma once

#include <vector>

#include "report/run_folder.h"

namespace stiefel::report {

/// The title of the fact that is a command line.
constexpr const char* kCommandFact = "Command";

/// What is known of a run's making: when, from which sources, on which machine. Only what its files say.
std::vector<Pair> facts_of(const RunFolder& run);

}  // namespace stiefel::report
