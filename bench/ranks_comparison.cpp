#include "ranks_comparison.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/cayley_muon.h>
#include <stiefel/optim/cayley_sgd.h>

#include <algorithm>
#include <stdexcept>

#include "base/statistics.h"
#include "counting_ranks.h"
#include "noise.h"
#include "start.h"

namespace stiefel::bench {

namespace {

using torch::optim::OptimizerParamGroup;

constexpr Way kAllWays[] = {Way::kRepeated, Way::kShared, Way::kDivided, Way::kGathered};

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

  /// Takes a step and returns the seconds it took on the slowest rank, and what this one sent.
  std::pair<double, Traffic> step() {
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

}  // namespace

std::vector<RanksRow> compare_ranks(const Workload& workload, const std::shared_ptr<Ranks>& ranks,
                                    const c10::Device& device, const RanksPlan& plan,
                                    const std::function<void(const std::string&)>& progress) {
  const auto counting = std::make_shared<CountingRanks>(ranks);
  std::vector<RanksRow> rows;
  for (const auto& method : plan.methods) {
    std::vector<WayRun> runs;
    std::vector<RanksRow> of_method;
    for (const auto way : kAllWays) {
      progress(fmt::format("{}, {}: warming up", method, to_string(way)));
      runs.emplace_back(workload, way, method, counting, device);
      const auto sent = runs.back().step().second;
      of_method.push_back(
          {workload.name, method, way, 0, 1, sent, predicted_traffic(workload, way, method, ranks->size())});
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
