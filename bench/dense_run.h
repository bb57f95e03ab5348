#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "run.h"
#include "workloads.h"

namespace stiefel::bench {

/// Cayley SGD with the paper's n×n matrix W, weight by weight: see dense_step.h.
std::unique_ptr<Run> dense_run(const Workload& workload, const c10::Device& device);

}  // namespace stiefel::bench
