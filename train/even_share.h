#pragma once

#include <cstdint>

#include "record/config.h"

namespace stiefel::train {

/// Throws std::invalid_argument where so many processes cannot share the batch of a new run evenly.
void require_even_share(const record::Config& config, int64_t processes);

/// The same for a run that goes on, whose batch is what it is: the remedy is another number of processes.
void require_even_share_of_run(const record::Config& config, int64_t processes);

}  // namespace stiefel::train
