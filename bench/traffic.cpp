#include "traffic.h"

#include <stiefel/ranks.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/names.h"

namespace stiefel::bench {

namespace {

constexpr base::Names<Way, 4> kWays{{{Way::kRepeated, "repeated"},
                                     {Way::kShared, "shared"},
                                     {Way::kDivided, "divided"},
                                     {Way::kGathered, "gathered"}}};
constexpr double kFloat = 4, kDouble = 8, kLong = 8;  // bytes

/// A layer's matrices by their short side p and long side n.
struct Sides {
  int64_t p, n, matrices;
  int64_t divided;  // what the ranks divide of n: a convolution's channels, else all of it

  explicit Sides(const Layer& layer) : matrices(layer.batched ? layer.sizes[0] : 1) {
    std::tie(p, n) = std::minmax({layer.p(), layer.n()});
    divided = divided_dim(layer) == 0 || layer.batched ? n : layer.sizes[1];
  }
};

/// What an optimizer's group of divided weights sends: its weights share the messages.
struct DividedGroup {
  double first = 0, second = 0, largest = 0, present = 0;  // bytes

  void add(const Layer& layer, const std::string& method, int64_t ranks) {
    const Sides sides(layer);
    const auto p = static_cast<double>(sides.p);
    const auto all = static_cast<double>(sides.matrices * layer.count);
    const double triangle = p * (p + 1) / 2, square = p * p;
    // E by its upper triangle, its diagonal's sums of squares, S, and ‖G‖² as two floats.
    first += all * (triangle + p + square + 2) * kFloat;
    if (sides.p < sides.n) {
      second += all * (triangle + square) * kFloat;           // T and S again
      if (method == "cayley-muon") largest += all * kDouble;  // the largest entry of M
    }
    // Whether a weight has a gradient, where some rank has nothing of it.
    if (ranks > sides.divided) present += static_cast<double>(layer.count) * kLong;
  }

  void send(RingTraffic& ring) const {
    if (present > 0) ring.add_gather(present);
    ring.add_sum(first);
    if (largest > 0) ring.add_gather(largest);
    if (second > 0) ring.add_sum(second);
  }
};

void send_divided(const Workload& workload, const std::string& method, int64_t ranks, RingTraffic& ring) {
  std::map<std::pair<int64_t, bool>, DividedGroup> groups;
  for (const auto& layer : workload.layers) {
    groups[{divided_dim(layer), layer.batched}].add(layer, method, ranks);
  }
  for (const auto& [key, group] : groups) group.send(ring);
}

/// Every gradient, padded to the longest part.
void send_gathered(const Workload& workload, int64_t ranks, RingTraffic& ring) {
  for (const auto& layer : workload.layers) {
    const Sides sides(layer);
    const auto longest = sides.n / sides.divided * part_of(sides.divided, 0, ranks).second;
    const auto part = sides.matrices * sides.p * longest;
    for (int64_t i = 0; i < layer.count; ++i) ring.add_gather(static_cast<double>(part) * kFloat);
  }
}

/// What the ranks own, and two counts each; gathered, as long as the longest, or summed, whichever is less.
void send_shared(const Workload& workload, int64_t ranks, RingTraffic& ring) {
  if (ranks == 1) return;
  std::vector<int64_t> costs, bytes;
  for (const auto& layer : workload.layers) {
    const Sides sides(layer);
    for (int64_t i = 0; i < layer.count; ++i) {
      costs.push_back(step_cost(layer.sizes, layer.batched));
      bytes.push_back((sides.matrices * sides.p * sides.n * static_cast<int64_t>(kFloat) + 15) / 16 * 16);
    }
  }
  std::vector<int64_t> loads, owned(static_cast<size_t>(ranks), 2 * static_cast<int64_t>(kLong));
  const auto owners = assign_owners(costs, ranks, loads);
  for (size_t i = 0; i < owners.size(); ++i) owned[static_cast<size_t>(owners[i])] += bytes[i];
  const auto longest = static_cast<double>(*std::max_element(owned.begin(), owned.end()));
  const auto total = static_cast<double>(std::accumulate(owned.begin(), owned.end(), int64_t{0}));
  auto gathered = RingTraffic(ranks), summed = RingTraffic(ranks);
  gathered.add_gather(longest);
  summed.add_sum(total);
  ring = gathered.total().bytes <= summed.total().bytes ? gathered : summed;
}

}  // namespace

std::string to_string(Way way) { return base::name_of(kWays, way); }

int64_t divided_dim(const Layer& layer) { return layer.p() > layer.n() ? 0 : 1; }

std::pair<int64_t, int64_t> part_of(int64_t length, int64_t rank, int64_t ranks) {
  const auto each = length / ranks, more = length % ranks;
  return {rank * each + std::min(rank, more), each + (rank < more ? 1 : 0)};
}

void RingTraffic::add_sum(double bytes) {
  bytes_ += 2 * bytes * static_cast<double>(ranks_ - 1) / static_cast<double>(ranks_);
  ++sums_;
}

void RingTraffic::add_gather(double bytes_of_a_rank) {
  bytes_ += bytes_of_a_rank * static_cast<double>(ranks_ - 1);
  ++gathers_;
}

Traffic RingTraffic::total() const { return {std::llround(bytes_), gathers_, sums_}; }

Traffic predicted_traffic(const Workload& workload, Way way, const std::string& method, int64_t ranks) {
  RingTraffic ring(ranks);
  switch (way) {
    case Way::kRepeated:
      break;
    case Way::kShared:
      send_shared(workload, ranks, ring);
      break;
    case Way::kDivided:
      send_divided(workload, method, ranks, ring);
      break;
    case Way::kGathered:
      send_gathered(workload, ranks, ring);
      break;
  }
  return ring.total();
}

}  // namespace stiefel::bench
