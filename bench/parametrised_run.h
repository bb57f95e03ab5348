#pragma once

#include <stiefel/parametrisations.h>

#include <memory>

#include "run.h"
#include "workloads.h"

namespace stiefel::bench {

/// SGD on the proxies of parametrised weights: a step is the weight's forward and backward pass and the
/// update. Stacks are stepped matrix by matrix, as layers would be.
std::unique_ptr<Run> parametrised_run(const Workload& workload, const at::Device& device,
                                      Parametrisation parametrisation);

}  // namespace stiefel::bench
