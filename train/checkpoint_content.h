#pragma once

#include "record/checkpoint.h"

namespace stiefel::train {

/// Restores a checkpoint into a network and optimisers of the checkpoint's own config, as a test: a file may
/// be whole and still not be one that this version reads. Needs no data set. Throws std::runtime_error naming
/// the file and what is wrong with it.
void check_content(const record::Checkpoints::Loaded& loaded);

/// The same for the network alone.
void check_network(const record::Checkpoints::Loaded& loaded);

}  // namespace stiefel::train
