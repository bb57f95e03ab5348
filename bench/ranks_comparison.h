#pragma once

#include <c10/core/Device.h>
#include <stiefel/ranks.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "traffic.h"
#include "workloads.h"

/// The ways in which ranks can step the same weights, side by side.
namespace stiefel::bench {

struct RanksRow {
  std::string workload;
  std::string method;
  Way way = Way::kRepeated;
  double median_ms = 0;    ///< of a step of the slowest rank
  double of_repeated = 1;  ///< the median over rounds of the ratio to kRepeated in the same round
  Traffic sent;            ///< by a rank per step, counted, by rings
  Traffic predicted;       ///< the same by formula, from the shapes
};

struct RanksPlan {
  int64_t rounds = 7;
  std::vector<std::string> methods{"cayley-sgd", "cayley-adam", "cayley-muon"};
};

/// Called by all ranks with the same arguments; the rows are alike on all. `progress` is called with what
/// comes next. Throws std::invalid_argument where a method has no such step.
std::vector<RanksRow> compare_ranks(const Workload& workload, const std::shared_ptr<Ranks>& ranks,
                                    const c10::Device& device, const RanksPlan& plan,
                                    const std::function<void(const std::string&)>& progress);

}  // namespace stiefel::bench
