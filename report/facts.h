#pragma once

#include <vector>

#include "report/run_folder.h"

namespace stiefel::report {

/// The title of the fact that is a command line.
constexpr const char* kCommandFact = "Command";

/// How a run was made, as far as its files record it: when, from which sources, on which machine.
std::vector<Pair> facts_of(const RunFolder& run);

}  // namespace stiefel::report
