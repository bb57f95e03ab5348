#include "ranks_comparison.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/cayley_muon.h>
#include <stiefel/optim/cayley_sgd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/names.h"
#include "base/statistics.h"
#include "counting_ranks.h"
#include "noise.h"
#include "start.h"

namespace stiefel::bench {

namespace {

using torch::optim::OptimizerParamGroup;

constexpr base::Names<Way, 4> kWays{{{Way::kRepeated, "repeated"},
                                     {Way::kShared, "shared"},
                                     {Way::kDivided, "divided"},
                                     {Way::kGathered, "gathered"}}};
constexpr int64_t kFloat = 4;  // bytes

/// A rank's part of a long side: as even as can be, the longer ones first.
std::pair<int64_t, int64_t> part_of(int64_t length, int64_t rank, int64_t ranks) {
  const auto each = length / ranks, more = length % ranks;
  return {rank * each + std::min(rank, more), each + (rank < more ? 1 : 0)};
}

/// The layers whose columns are orthonormal are divided by rows, the others by columns.
int64_t divided_dim(const Layer& layer) { return layer.p() > layer.n() ? 0 : 1; }

/// One way of stepping: the weights as a rank has them, and their optimizer.
class WayRun {
 public:
  WayRun(const Workload& workload, Way way, const std::string& method,
         const std::shared_ptr<CountingRanks>& ranks, const c10::Device& device)
      : way_(way), ranks_(ranks), device_(device) {
    std::vector<std::pair<int64_t, std::vector<at::Tensor>>>
        groups;  // by divided dimension, whole ones at −1
    std::vector<at::Tensor> stacks;
    for (const auto& layer : workload.layers) {
      const auto& point = start_of(layer, device).point;
      const auto dim = divided_dim(layer);
      for (int64_t i = 0; i < layer.count; ++i) {
        const auto axis = layer.batched ? point.dim() - 2 + dim : dim;
        const auto [first, length] = part_of(point.size(axis), ranks->rank(), ranks->size());
        const auto part = point.narrow(axis, first, length);
        if (way == Way::kGathered) parts_.push_back({axis, part.sizes().vec(), point.size(axis)});
        add(groups, way == Way::kDivided ? dim : -1, layer.batched,
            (way == Way::kDivided ? part : point).clone());
      }
    }
    optimizer_ = make(method, groups);
    if (way == Way::kShared || way == Way::kDivided) optimizer_->distribute(ranks);
  }

  /// Takes a step and returns the seconds it took on the slowest rank, and the bytes that this one sent.
  std::pair<double, double> step() {
    for (size_t i = 0; i < weights_.size(); ++i)
      weights_[i].mutable_grad() = Noise::shared(device_).draw(weights_[i].sizes());
    ranks_->gather(at::zeros({1}, device_));  // all begin together
    ranks_->take_sent();
    const auto seconds = seconds_of([this] { work(); }, device_);
    const auto sent = ranks_->take_sent();
    const auto all = ranks_->gather(at::full({1}, seconds, at::TensorOptions(at::kDouble).device(device_)));
    return {all.max().item<double>(), sent};
  }

 private:
  struct Part {
    int64_t axis;
    std::vector<int64_t> shape;
    int64_t whole;
  };

  void add(std::vector<std::pair<int64_t, std::vector<at::Tensor>>>& groups, int64_t dim, bool batched,
           const at::Tensor& weight) {
    weights_.push_back(weight);
    const auto key = 2 * dim + (batched ? 1 : 0);  // stacks in groups of their own
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == key; });
    (found == groups.end() ? groups.emplace_back(key, std::vector<at::Tensor>{}) : *found)
        .second.push_back(weight);
  }

  template <class Optimizer, class Options>
  static std::unique_ptr<ManifoldOptimizer> make_of(
      const std::vector<std::pair<int64_t, std::vector<at::Tensor>>>& groups, const Options& options) {
    std::vector<OptimizerParamGroup> all;
    for (const auto& [key, weights] : groups) {
      const bool batched = key % 2 != 0;
      const auto dim = (key - (batched ? 1 : 0)) / 2;
      all.emplace_back(weights, Options(options).batched(batched).shard_dim(dim).clone());
    }
    return std::make_unique<Optimizer>(std::move(all), options);
  }

  static std::unique_ptr<ManifoldOptimizer> make(
      const std::string& method, const std::vector<std::pair<int64_t, std::vector<at::Tensor>>>& groups) {
    // A step's work depends little on its length; this rate turns a matrix a little.
    constexpr double kRate = 1e-3;
    if (method == "cayley-sgd")
      return make_of<CayleySGD>(groups, CayleySGDOptions(kRate).momentum(kMomentum));
    if (method == "cayley-adam") return make_of<CayleyAdam>(groups, CayleyAdamOptions(kRate));
    if (method == "cayley-muon")
      return make_of<CayleyMuon>(groups, CayleyMuonOptions(kRate).momentum(kMomentum));
    throw std::invalid_argument(fmt::format(
        "{} has no step that ranks share; there are cayley-sgd, cayley-adam and cayley-muon", method));
  }

  void work() {
    // What others do who have parts: every gradient is brought together, padded to the longest part.
    for (const auto& part : parts_) {
      auto shape = part.shape;
      shape[static_cast<size_t>(part.axis)] = part_of(part.whole, 0, ranks_->size()).second;
      ranks_->gather(Noise::shared(device_).draw(shape));
    }
    optimizer_->step();
  }

  Way way_;
  std::shared_ptr<CountingRanks> ranks_;
  c10::Device device_;
  std::vector<at::Tensor> weights_;
  std::vector<Part> parts_;
  std::unique_ptr<ManifoldOptimizer> optimizer_;
};

/// Calls `take` with the shape of every weight, whether it is a stack, its p and n with p ≤ n, and how many
/// matrices it has.
template <class Take>
void for_each_weight(const Workload& workload, const Take& take) {
  for (const auto& layer : workload.layers) {
    const auto [p, n] = std::minmax({layer.p(), layer.n()});
    for (int64_t i = 0; i < layer.count; ++i) take(layer, p, n, layer.batched ? layer.sizes[0] : 1);
  }
}

}  // namespace

std::string to_string(Way way) { return base::name_of(kWays, way); }

double ring_sum(double bytes, int64_t ranks) {
  return 2 * bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

double ring_gather(double bytes_of_a_rank, int64_t ranks) {
  return bytes_of_a_rank * static_cast<double>(ranks - 1);
}

int64_t predicted_bytes(const Workload& workload, Way way, const std::string& method, int64_t ranks) {
  double sum = 0, gathered = 0;
  std::vector<int64_t> costs, bytes;
  bool polar = false;
  for_each_weight(workload, [&](const Layer& layer, int64_t p, int64_t n, int64_t matrices) {
    costs.push_back(step_cost(layer.sizes, layer.batched));
    bytes.push_back((matrices * p * n * kFloat + 15) / 16 * 16);
    // E by its upper triangle, its diagonal's sums of squares, S, and ‖G‖² as two floats; T and S again where
    // the matrix is not square.
    const double triangle = static_cast<double>(p * (p + 1)) / 2, square = static_cast<double>(p * p);
    const auto first = triangle + static_cast<double>(p) + square + 2;
    sum += static_cast<double>(matrices) * (first + (p < n ? triangle + square : 0)) * kFloat;
    if (way == Way::kDivided && method == "cayley-muon" && p < n) {
      gathered += static_cast<double>(matrices) * 8;  // the largest entry of M, a double
      polar = true;
    }
    if (way == Way::kGathered) {
      const auto side = divided_dim(layer) == 0 || layer.batched ? n : layer.sizes[1];
      gathered += static_cast<double>(matrices * p * n / side * part_of(side, 0, ranks).second * kFloat);
    }
  });
  switch (way) {
    case Way::kRepeated:
      return 0;
    case Way::kDivided:
      return std::llround(ring_sum(sum, ranks) + (polar ? ring_gather(gathered, ranks) : 0));
    case Way::kGathered:
      return std::llround(ring_gather(gathered, ranks));
    case Way::kShared:
      break;
  }
  // Every message is as long as the longest: the most that a rank owns, and two counts.
  std::vector<int64_t> loads, owned(static_cast<size_t>(ranks), 16);
  const auto owners = assign_owners(costs, ranks, loads);
  for (size_t i = 0; i < owners.size(); ++i) owned[static_cast<size_t>(owners[i])] += bytes[i];
  return std::llround(ring_gather(static_cast<double>(*std::max_element(owned.begin(), owned.end())), ranks));
}

std::vector<RanksRow> compare_ranks(const Workload& workload, const std::shared_ptr<Ranks>& ranks,
                                    const c10::Device& device, const RanksPlan& plan,
                                    const std::function<void(const std::string&)>& progress) {
  const auto counting = std::make_shared<CountingRanks>(ranks);
  std::vector<RanksRow> rows;
  for (const auto& method : plan.methods) {
    std::vector<WayRun> runs;
    std::vector<RanksRow> of_method;
    for (const auto& [way, name] : kWays) {
      progress(fmt::format("{}, {}: warming up", method, name));
      runs.emplace_back(workload, way, method, counting, device);
      const auto sent = runs.back().step().second;
      of_method.push_back({workload.name, method, way, 0, 1, std::llround(sent),
                           predicted_bytes(workload, way, method, ranks->size())});
    }
    std::vector<std::vector<double>> seconds(runs.size());
    for (int64_t round = 0; round < plan.rounds; ++round) {
      progress(fmt::format("{}: round {} of {}", method, round + 1, plan.rounds));
      for (size_t i = 0; i < runs.size(); ++i) seconds[i].push_back(runs[i].step().first);
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      std::vector<double> ratios;
      for (size_t r = 0; r < seconds[i].size(); ++r) ratios.push_back(seconds[i][r] / seconds[0][r]);
      of_method[i].median_ms = 1e3 * base::median(seconds[i]);
      of_method[i].of_repeated = base::median(ratios);
    }
    rows.insert(rows.end(), of_method.begin(), of_method.end());
  }
  return rows;
}

}  // namespace stiefel::bench
