#pragma once

#include <string>

#include "report/run_folder.h"

namespace stiefel::report {

/// Whether a setting that a run's config states changed anything about the run: β₂ does nothing under SGD,
/// the precision of the step nothing on a CPU. True where the run does not say enough to tell.
bool has_effect(const std::string& key, const RunFolder& run);

}  // namespace stiefel::report
