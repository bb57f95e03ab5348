#pragma once

#include <functional>
#include <memory>

#include "run.h"
#include "workloads.h"

namespace stiefel::bench {

/// A workload measured on one weight per shape: a step's time is the sum of theirs, each multiplied by the
/// number of weights of the shape. For methods that would take minutes on a whole network.
std::unique_ptr<Run> sampled_run(const Workload& workload,
                                 const std::function<std::unique_ptr<Run>(const Workload&)>& begin);

}  // namespace stiefel::bench
