#include "ranks_model.h"

#include <stiefel/ranks.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stiefel::bench {

namespace {

/// The cost of every weight, np² + p³ per matrix, and the part of it that is divided with n.
struct Costs {
  std::vector<int64_t> all;
  double total = 0;
  double divisible = 0;

  explicit Costs(const Workload& workload) {
    for (const auto& layer : workload.layers) {
      const auto [p, n] = std::minmax({layer.p(), layer.n()});
      const double matrices = layer.batched ? static_cast<double>(layer.sizes[0]) : 1;
      for (int64_t i = 0; i < layer.count; ++i) {
        all.push_back(step_cost(layer.sizes, layer.batched));
        total += static_cast<double>(all.back());
        divisible += matrices * static_cast<double>(n * p * p);
      }
    }
  }
};

/// The part of one rank's step that the busiest of `ranks` does.
double share_of_work(const Costs& costs, Way way, int64_t ranks) {
  switch (way) {
    case Way::kShared: {
      std::vector<int64_t> loads;
      assign_owners(costs.all, ranks, loads);
      return static_cast<double>(*std::max_element(loads.begin(), loads.end())) / costs.total;
    }
    case Way::kDivided:
      return (costs.divisible / static_cast<double>(ranks) + costs.total - costs.divisible) / costs.total;
    case Way::kRepeated:
    case Way::kGathered:
      break;
  }
  return 1;
}

/// A gathering takes log₂ N hops, a sum as many there and back.
double hops(const Traffic& traffic, int64_t ranks) {
  const double depth = std::ceil(std::log2(static_cast<double>(ranks)));
  return depth * static_cast<double>(traffic.gathers + 2 * traffic.sums);
}

}  // namespace

std::vector<RanksPrediction> predict_steps(const Workload& workload, const std::string& method,
                                           const StepSeconds& step, const Link& link,
                                           const std::vector<int64_t>& ranks) {
  const Costs costs(workload);
  std::vector<RanksPrediction> result;
  for (const auto count : ranks) {
    for (const auto way : {Way::kRepeated, Way::kShared, Way::kDivided}) {
      RanksPrediction row;
      row.ranks = count;
      row.way = way;
      row.work = share_of_work(costs, way, count);
      const auto traffic = predicted_traffic(workload, way, method, count);
      row.sent = traffic.bytes;
      row.seconds = row.work * (way == Way::kDivided ? step.divided : step.whole) +
                    static_cast<double>(row.sent) / link.bytes_per_second +
                    hops(traffic, count) * link.seconds_per_hop;
      result.push_back(row);
    }
  }
  return result;
}

}  // namespace stiefel::bench
