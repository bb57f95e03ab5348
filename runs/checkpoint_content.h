#pragma once

#include "checkpoint.h"

namespace stiefel::train {

/// Puts what a checkpoint holds into a network and optimisers of the checkpoint's own config, to see that it
/// can be: a file may be whole and still not be what this version reads. Needs no data set. Throws
/// std::runtime_error naming the file and what is wrong with it.
void check_content(const Checkpoints::Loaded& loaded);

/// The same for the network alone.
void check_network(const Checkpoints::Loaded& loaded);

}  // namespace stiefel::train
