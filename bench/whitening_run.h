#pragma once

#include <memory>

#include "network_workload.h"
#include "run.h"

namespace stiefel::bench {

/// SGD on a network whose normalisation decorrelates: a step is the whitening's forward and backward pass
/// over the activations of a batch of 128, and the update of the weights.
std::unique_ptr<Run> whitening_run(const NetworkWorkload& network, const at::Device& device);

}  // namespace stiefel::bench
