#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traffic.h"
#include "workloads.h"

/// What a step by many ranks would take, from the time of one rank's step and the rate of the links: for
/// numbers of ranks that nobody has at hand.
namespace stiefel::bench {

/// Between the ranks. Sums and gatherings go in rings as far as bytes are concerned and in trees for latency,
/// as NCCL does: log2(N) hops per message there, and back for a sum.
struct Link {
  double bytes_per_second = 0;  ///< that a rank sends, while it receives as many
  double seconds_per_hop = 0;
};

struct RanksPrediction {
  int64_t ranks = 0;
  Way way = Way::kRepeated;
  double work = 1;     ///< of one rank's step, that the busiest rank does
  int64_t sent = 0;    ///< bytes per rank
  double seconds = 0;  ///< work and messages, one after the other
};

/// What one rank takes for all weights: whole ones, and ones that are divided, whose steps are full in
/// precision.
struct StepSeconds {
  double whole = 0;
  double divided = 0;
};

/// Every way but kGathered by each number of ranks. `step` is by `method`; work is divided as step_cost()
/// counts it.
std::vector<RanksPrediction> predict_steps(const Workload& workload, const std::string& method,
                                           const StepSeconds& step, const Link& link,
                                           const std::vector<int64_t>& ranks);

}  // namespace stiefel::bench
