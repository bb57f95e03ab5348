#pragma once

#include <string>
#include <utility>
#include <vector>

#include "row.h"
#include "workloads.h"

namespace stiefel::bench {

/// A table of how many times faster than the dense form Cayley SGD is on each workload, beside the factor
/// that the library aims at for the shape. Empty where no workload has both rows.
std::string format_dense_speedup(const std::vector<std::pair<Workload, std::vector<Row>>>& results);

}  // namespace stiefel::bench
