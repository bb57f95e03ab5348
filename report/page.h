#pragma once

#include <string>
#include <vector>

#include "report/run_folder.h"

namespace stiefel::report {

/// The report of one or more runs: one HTML page that needs nothing beside it, with its style, its scripts
/// and the runs' values inside. Throws std::runtime_error where there is no run.
std::string render(const std::vector<RunFolder>& runs);

}  // namespace stiefel::report
