#pragma once

#include "config.h"

namespace stiefel::train {

/// Takes over from another config what does not change a run's course: threads, the folder of the data,
/// TensorBoard's files, how often checkpoints are written, whether steps are recorded into a graph. What
/// still differs then, differs in earnest.
void adopt_housekeeping(Config& config, const Config& other);

}  // namespace stiefel::train
