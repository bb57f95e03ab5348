#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan.h"

namespace stiefel::paper {

/// The time of jobs whose networks no finished run tells of: what a network's passes take now, forward and
/// backward, one network after the other. Optimiser steps and reading data are left out, and on a GPU kernels
/// are launched one by one where a training replays a graph, so it is a rough figure. `say` is called with
/// which network is being timed.
void time_networks(std::vector<Job>& jobs, Scale scale, const std::function<void(const std::string&)>& say);

}  // namespace stiefel::paper
