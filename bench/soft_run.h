#pragma once

#include <stiefel/penalties.h>

#include <memory>

#include "run.h"
#include "workloads.h"

namespace stiefel::bench {

/// SGD with a soft penalty: a step is the penalty's value and gradient, which joins the gradient that is
/// there, and the update.
std::unique_ptr<Run> soft_run(const Workload& workload, const at::Device& device, Penalty kind);

}  // namespace stiefel::bench
