#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "workloads.h"

/// What ranks send to step the same weights: the ways of dividing the work, and the bytes and messages of
/// each by formula.
namespace stiefel::bench {

/// How the ranks divide the step of a network's weights among themselves.
enum class Way {
  kRepeated,  ///< every rank steps every weight; nothing is sent
  kShared,    ///< each weight has an owner, and one gathering hands all weights to all (distribute())
  kDivided,   ///< each rank has a part of every long side, and p×p sums are sent (shard_dim())
  kGathered,  ///< the same parts, but gradients are gathered whole and every rank steps whole weights
};

std::string to_string(Way way);

/// The dimension of a layer's matrices that is divided: that of rows where columns are orthonormal, else that
/// of columns.
int64_t divided_dim(const Layer& layer);

/// Where a rank's part of a long side begins, and its length: as even as can be, the longer ones first.
std::pair<int64_t, int64_t> part_of(int64_t length, int64_t rank, int64_t ranks);

/// What a rank sends in one step.
struct Traffic {
  int64_t bytes = 0;
  int64_t gathers = 0, sums = 0;  ///< messages

  friend bool operator==(const Traffic& a, const Traffic& b) {
    return a.bytes == b.bytes && a.gathers == b.gathers && a.sums == b.sums;
  }
};

/// Adds up what is sent through rings of a number of ranks: 2(N − 1)/N of a sum, N − 1 times a rank's part of
/// a gathering.
class RingTraffic {
 public:
  explicit RingTraffic(int64_t ranks) : ranks_(ranks) {}

  void add_sum(double bytes);
  void add_gather(double bytes_of_a_rank);
  Traffic total() const;

 private:
  int64_t ranks_;
  double bytes_ = 0;
  int64_t gathers_ = 0, sums_ = 0;
};

/// What a rank sends per step, from the shapes alone: see docs/shared-steps.md.
Traffic predicted_traffic(const Workload& workload, Way way, const std::string& method, int64_t ranks);

}  // namespace stiefel::bench
