#pragma once

#include <c10/core/Device.h>
#include <stiefel/ranks.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "workloads.h"

/// The ways in which ranks can step the same weights, side by side.
namespace stiefel::bench {

/// How the ranks divide the step of a network's weights among themselves.
enum class Way {
  kRepeated,  ///< every rank steps every weight; nothing is sent
  kShared,    ///< each weight has an owner, and one gathering hands all weights to all (distribute())
  kDivided,   ///< each rank has a part of every long side, and p×p sums are sent (shard_dim())
  kGathered,  ///< the same parts, but gradients are gathered whole and every rank steps whole weights
};

std::string to_string(Way way);

struct RanksRow {
  std::string workload;
  std::string method;
  Way way = Way::kRepeated;
  double median_ms = 0;    ///< of a step of the slowest rank
  double of_repeated = 1;  ///< the median over rounds of the ratio to kRepeated in the same round
  int64_t sent = 0;        ///< bytes that a rank sends per step, counted, by rings
  int64_t predicted = 0;   ///< the same by formula, from the shapes
};

struct RanksPlan {
  int64_t rounds = 7;
  std::vector<std::string> methods{"cayley-sgd", "cayley-adam", "cayley-muon"};
};

/// Bytes that a rank sends by ring algorithms: 2(N − 1)/N of a sum, N − 1 times its part of a gathering.
double ring_sum(double bytes, int64_t ranks);
double ring_gather(double bytes_of_a_rank, int64_t ranks);

/// What a rank sends per step, from the shapes alone: see docs/distributed.md.
int64_t predicted_bytes(const Workload& workload, Way way, const std::string& method, int64_t ranks);

/// Called by all ranks with the same arguments; the rows are alike on all. `progress` hears what comes next.
/// Throws std::invalid_argument where a method has no such step.
std::vector<RanksRow> compare_ranks(const Workload& workload, const std::shared_ptr<Ranks>& ranks,
                                    const c10::Device& device, const RanksPlan& plan,
                                    const std::function<void(const std::string&)>& progress);

}  // namespace stiefel::bench
