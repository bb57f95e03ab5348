#pragma once

#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/cayley_muon.h>
#include <stiefel/optim/cayley_sgd.h>
#include <stiefel/optim/retraction_sgd.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "noise.h"
#include "run.h"
#include "start.h"

namespace stiefel::bench {

/// A workload stepped by a LibTorch optimiser. On the CPU layers of one shape make a group, with a learning
/// rate for that shape.
template <class Optimizer>
class OptimizerRun : public Run {
 public:
  /// `options` returns a layer's options; `settle` brings a parameter's state after one step into the steady
  /// state.
  template <class MakeOptions, class Settle>
  OptimizerRun(const Workload& workload, const at::Device& device, MakeOptions options, Settle settle)
      : device_(device) {
    // A GPU steps a group's matrices of all shapes at once, as a network's are: one group then, at the
    // smallest rate. On the CPU, where a step's work depends on its length, every shape has a group.
    using Options = std::decay_t<decltype(options(workload.layers[0], start_of(workload.layers[0], device)))>;
    std::vector<torch::optim::OptimizerParamGroup> groups;
    std::vector<at::Tensor> all;
    auto least = options(workload.layers[0], start_of(workload.layers[0], device));
    for (const auto& layer : workload.layers) {
      std::vector<at::Tensor> weights;
      for (int64_t i = 0; i < layer.count; ++i) {
        weights.push_back(start_of(layer, device).point.clone());
        weights_.push_back({weights.back(), layer.batched});
      }
      const auto chosen = options(layer, start_of(layer, device));
      if (device.is_cuda()) {
        all.insert(all.end(), weights.begin(), weights.end());
        if (chosen.get_lr() < least.get_lr()) least = chosen;
      } else {
        groups.emplace_back(weights, std::make_unique<Options>(chosen));
      }
    }
    if (device.is_cuda()) groups.emplace_back(all, std::make_unique<Options>(least));
    optimizer_ = std::make_unique<Optimizer>(std::move(groups), least);
    OptimizerRun::step();
    for (auto& entry : optimizer_->state()) settle(*entry.second);
  }

  double step() override {
    for (auto& weight : weights_) {
      weight.tensor.mutable_grad() = Noise::shared(device_).draw(weight.tensor.sizes());
    }
    return seconds_of([this] { optimizer_->step(); }, device_);
  }

  bool bare_step(int64_t gradients) override {
    auto& sets = gradients_;
    while (static_cast<int64_t>(sets.size()) <= gradients) {
      auto& set = sets.emplace_back();
      for (const auto& weight : weights_) set.push_back(Noise::shared(device_).draw(weight.tensor.sizes()));
    }
    const auto& set = sets[static_cast<size_t>(gradients)];
    for (size_t i = 0; i < set.size(); ++i) weights_[i].tensor.mutable_grad() = set[i];
    optimizer_->step();
    return true;
  }

  double defect() const override {
    double worst = 0;
    for (const auto& weight : weights_) worst = std::max(worst, worst_defect(weight.tensor, weight.batched));
    return worst;
  }

 private:
  struct Weight {
    at::Tensor tensor;
    bool batched;
  };
  at::Device device_;
  std::vector<Weight> weights_;
  std::vector<std::vector<at::Tensor>> gradients_;  // of bare steps, a set of windows each
  std::unique_ptr<Optimizer> optimizer_;
};

/// Brings a momentum of zeros and one gradient to the length it has in the long run.
inline void settle_momentum(torch::optim::OptimizerParamState& state) {
  auto& buffer = static_cast<MomentumParamState&>(state).momentum_buffer;
  if (buffer.defined()) buffer.mul_(kGrowth);
}

/// Cayley SGD with momentum; `choose` sets other options.
template <class Choose>
std::unique_ptr<OptimizerRun<CayleySGD>> cayley_sgd_run(const Workload& workload, const at::Device& device,
                                                        Choose choose) {
  const auto options = [&](const Layer& layer, const Start& start) {
    auto result = CayleySGDOptions(start.rate(kGrowth)).momentum(kMomentum).batched(layer.batched);
    choose(result);
    return result;
  };
  return std::make_unique<OptimizerRun<CayleySGD>>(workload, device, options, settle_momentum);
}

std::unique_ptr<OptimizerRun<CayleyAdam>> cayley_adam_run(const Workload& workload, const at::Device& device,
                                                          Precision precision = Precision::kFull);

/// Cayley Muon, at the rate that turns its matrices as far as the others turn theirs.
std::unique_ptr<Run> cayley_muon_run(const Workload& workload, const at::Device& device, Precision precision);

/// torch's SGD with momentum, and ADAM; on a GPU by fused kernels.
std::unique_ptr<Run> sgd_run(const Workload& workload, const at::Device& device);
std::unique_ptr<Run> adam_run(const Workload& workload, const at::Device& device);

/// A retraction, bare or with Cayley SGD's momentum.
template <class Retraction>
std::unique_ptr<Run> retraction_run(const Workload& workload, const at::Device& device, double momentum,
                                    Retraction policy = {}) {
  const auto options = [&](const Layer& layer, const Start& start) {
    return RetractionSGDOptions<Retraction>(start.rate(momentum > 0 ? kGrowth : 1))
        .momentum(momentum)
        .batched(layer.batched)
        .retraction(policy);
  };
  return std::make_unique<OptimizerRun<RetractionSGD<Retraction>>>(workload, device, options,
                                                                   settle_momentum);
}

}  // namespace stiefel::bench
