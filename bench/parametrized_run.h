#pragma once

#include <stiefel/parametrizations.h>

#include <memory>

#include "run.h"
#include "workloads.h"

namespace stiefel::bench {

/// SGD on the proxies of parametrised weights: a step is the weight's forward and backward pass and the
/// update. OMDSM takes a stack of matrices as the groups of one weight; the other maps take it matrix by
/// matrix, as layers would.
std::unique_ptr<Run> parametrized_run(const Workload& workload, const at::Device& device,
                                      Parametrization parametrization);

}  // namespace stiefel::bench
