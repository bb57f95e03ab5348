#include "methods.h"

#include <stiefel/cayley.h>
#include <stiefel/init.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/cayley_sgd.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "noise.h"
#include "peers.h"

namespace stiefel::bench {

namespace {

constexpr double kMomentum = 0.9;
constexpr double kBeta2 = 0.99;
constexpr double kTurn = 0.1;  // the α‖W‖_F to aim at: what training shows at its first rate

// M = βM + G grows to 1/√(1 − β²) times a single random gradient.
const double kGrowth = 1 / std::sqrt(1 - kMomentum * kMomentum);

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// How a layer starts: a point, and the length of its gradients.
struct Start {
  at::Tensor point;      // the weight, uniformly distributed on the manifold
  double gradient = 0;   // ‖G‖_F
  double generator = 0;  // ‖W‖_F of one gradient

  /// The rate at which ‖W‖_F of the momentum turns by kTurn; `growth` is the momentum's length over a
  /// gradient's.
  double rate(double growth) const { return kTurn / (growth * generator); }
};

/// One start serves all weights of a shape and all methods: their gradients differ from the first step on.
const Start& start_of(const Layer& layer) {
  static std::map<std::vector<int64_t>, Start> starts;
  auto& start = starts[layer.sizes];
  if (start.point.defined()) return start;
  auto matrix = at::empty({layer.p(), layer.n()});
  init::haar_(matrix);
  const auto gradient = Noise::shared().draw(matrix.sizes());
  start.gradient = gradient.norm().item<double>();
  start.generator =
      generator_norm(matrix, project_tangent(matrix, gradient), Norm::kFrobenius).item<double>();
  start.point = layer.batched ? matrix.expand(layer.sizes).contiguous() : matrix.view(layer.sizes);
  return start;
}

double worst_defect(const at::Tensor& weight, bool batched) {
  return stiefel::defect(weight, batched).max().item<double>();
}

/// A workload under a LibTorch optimiser. Layers of one shape make a group, with the rate that suits the
/// shape.
template <class Optimizer>
class OptimizerRun : public Run {
 public:
  /// `options` gives a layer's options, `settle` brings a parameter's state after one step into the steady
  /// state.
  template <class MakeOptions, class Settle>
  OptimizerRun(const Workload& workload, bool count, MakeOptions options, Settle settle) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const auto& layer : workload.layers) {
      std::vector<at::Tensor> weights;
      for (int64_t i = 0; i < layer.count; ++i) {
        weights.push_back(start_of(layer).point.clone());
        weights_.push_back({weights.back(), layer.batched});
      }
      const auto chosen = options(layer, start_of(layer));
      groups.emplace_back(weights, std::make_unique<std::decay_t<decltype(chosen)>>(chosen));
    }
    const auto defaults = options(workload.layers[0], start_of(workload.layers[0]));
    optimizer_ = std::make_unique<Optimizer>(std::move(groups), defaults);
    step();
    for (auto& entry : optimizer_->state()) settle(*entry.second);
    if (count) operations_ = count_operations([this] { step(); });
  }

  double step() override {
    for (auto& weight : weights_) weight.tensor.mutable_grad() = Noise::shared().draw(weight.tensor.sizes());
    return seconds_of([this] { optimizer_->step(); });
  }

  double defect() const override {
    double worst = 0;
    for (const auto& weight : weights_) worst = std::max(worst, worst_defect(weight.tensor, weight.batched));
    return worst;
  }

  Operations operations() const override { return operations_; }

 private:
  struct Weight {
    at::Tensor tensor;
    bool batched;
  };
  std::vector<Weight> weights_;
  std::unique_ptr<Optimizer> optimizer_;
  Operations operations_;
};

std::unique_ptr<Run> begin_cayley_sgd(const Workload& workload,
                                      const std::function<void(CayleySGDOptions&)>& choose) {
  const auto options = [&](const Layer& layer, const Start& start) {
    auto result = CayleySGDOptions(start.rate(kGrowth)).momentum(kMomentum).batched(layer.batched);
    choose(result);
    return result;
  };
  const auto settle = [](torch::optim::OptimizerParamState& state) {
    static_cast<CayleySGDParamState&>(state).momentum_buffer.mul_(kGrowth);
  };
  return std::make_unique<OptimizerRun<CayleySGD>>(workload, true, options, settle);
}

std::unique_ptr<Run> begin_cayley_adam(const Workload& workload) {
  const auto options = [](const Layer& layer, const Start& start) {
    // The first moment averages, which is (1 − β₁) times Cayley SGD's momentum, and r becomes ‖G‖_F.
    const double rate = start.rate(kGrowth * (1 - kMomentum)) * start.gradient;
    return CayleyAdamOptions(rate).betas({kMomentum, kBeta2}).batched(layer.batched);
  };
  const auto settle = [](torch::optim::OptimizerParamState& state) {
    auto& adam = static_cast<CayleyAdamParamState&>(state);
    adam.exp_avg.mul_(kGrowth);
    adam.second_moment.div_(1 - kBeta2);
    adam.step.fill_(1000);
  };
  return std::make_unique<OptimizerRun<CayleyAdam>>(workload, true, options, settle);
}

std::unique_ptr<Run> begin_sgd(const Workload& workload) {
  const auto options = [](const Layer&, const Start& start) {
    return torch::optim::SGDOptions(start.rate(kGrowth)).momentum(kMomentum);
  };
  return std::make_unique<OptimizerRun<torch::optim::SGD>>(workload, false, options,
                                                           [](torch::optim::OptimizerParamState&) {});
}

/// What a peer steps: one matrix, or a stack.
struct Piece {
  at::Tensor x;  // (B, p, n)
  at::Tensor m;  // the momentum, where the peer has one
  at::Tensor g;
  double rate;    // where it has momentum and
  double plain;   // where it has none
  double weight;  // how many such pieces this one stands for
};

using PeerStep = std::function<void(Piece&)>;

/// A workload stepped weight by weight.
class PeerRun : public Run {
 public:
  PeerRun(const Workload& workload, bool has_momentum, bool one_a_shape, PeerStep step)
      : step_(std::move(step)), summed_(one_a_shape) {
    for (const auto& layer : workload.layers) {
      const auto& start = start_of(layer);
      const auto stack = start.point.view({-1, layer.p(), layer.n()});
      const int64_t pieces = one_a_shape ? 1 : layer.count;
      for (int64_t i = 0; i < pieces; ++i) {
        auto m = has_momentum ? Noise::shared().draw(stack.sizes()) * kGrowth : at::Tensor();
        pieces_.push_back({stack.clone(),
                           std::move(m),
                           {},
                           start.rate(kGrowth),
                           start.rate(1),
                           static_cast<double>(layer.count) / static_cast<double>(pieces)});
      }
    }
  }

  double step() override {
    const at::NoGradGuard no_grad;
    for (auto& piece : pieces_) piece.g = Noise::shared().draw(piece.x.sizes());
    if (!summed_) {
      return seconds_of([this] {
        for (auto& piece : pieces_) step_(piece);
      });
    }
    double total = 0;
    for (auto& piece : pieces_) total += piece.weight * seconds_of([&] { step_(piece); });
    return total;
  }

  double defect() const override {
    double worst = 0;
    for (const auto& piece : pieces_) worst = std::max(worst, worst_defect(piece.x, true));
    return worst;
  }

 private:
  PeerStep step_;
  bool summed_;
  std::vector<Piece> pieces_;
};

Method cayley_sgd(std::string name, std::string title, std::function<void(CayleySGDOptions&)> choose) {
  return {
      std::move(name),
      std::move(title),
      true,
      true,
      false,
      [choose = std::move(choose)](const Workload& workload) { return begin_cayley_sgd(workload, choose); }};
}

Method peer(std::string name, std::string title, bool has_momentum, bool slow, PeerStep step) {
  return {std::move(name),
          std::move(title),
          false,
          true,
          slow,
          [=, step = std::move(step)](const Workload& workload) -> std::unique_ptr<Run> {
            return std::make_unique<PeerRun>(workload, has_momentum, slow && workload.large, step);
          }};
}

}  // namespace

std::vector<Method> methods(bool quick) {
  std::vector<Method> all{
      cayley_sgd("ours", "ours, s = 2", [](CayleySGDOptions&) {}),
      cayley_sgd("ours-s5", "ours, s = 5", [](CayleySGDOptions& options) { options.iterations(5); }),
      cayley_sgd("ours-exact", "ours, exact", [](CayleySGDOptions& options) { options.exact(true); }),
      cayley_sgd("ours-no-polish", "ours, polish(false)",
                 [](CayleySGDOptions& options) { options.polish(false); }),
      {"ours-adam", "ours, Cayley ADAM", true, true, false, begin_cayley_adam},
      peer("dense", "dense, s = 2", true, false,
           [](Piece& piece) { dense_step_(piece.x, piece.m, piece.g, piece.rate, kMomentum); }),
      peer("qr", "QR", false, false, [](Piece& piece) { qr_step_(piece.x, piece.g, piece.plain); }),
      peer("polar", "polar (SVD)", false, true,
           [](Piece& piece) { polar_step_(piece.x, piece.g, piece.plain); }),
      peer("closed-form", "closed form, n×n", false, true,
           [](Piece& piece) { closed_form_step_(piece.x, piece.g, piece.plain); }),
      {"sgd", "SGD, no constraint", false, false, false, begin_sgd},
  };
  if (quick)
    all.erase(std::remove_if(all.begin(), all.end(), [](const Method& m) { return m.slow; }), all.end());
  return all;
}

}  // namespace stiefel::bench
