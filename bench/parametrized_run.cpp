#include "parametrized_run.h"

#include <torch/optim/sgd.h>

#include <algorithm>
#include <vector>

#include "noise.h"
#include "start.h"

namespace stiefel::bench {

namespace {

class ParametrizedRun : public Run {
 public:
  ParametrizedRun(const Workload& workload, const at::Device& device, Parametrization parametrization)
      : device_(device), parametrization_(parametrization) {
    std::vector<at::Tensor> proxies;
    for (const auto& layer : workload.layers) {
      auto point = start_of(layer, device).point;
      const bool groups = layer.batched && parametrization == Parametrization::kOmdsm;
      if (groups) {
        omdsm_.group_size = layer.p();
        point = point.flatten(0, 1);
      } else if (layer.batched) {
        point = point[0];
      }
      const auto start = parametrized_start(point, parametrization);
      for (int64_t i = 0; i < (groups ? layer.count : layer.matrices()); ++i) {
        // A little way off the start, where a map may be cheaper than it is in training.
        const auto noise = Noise::shared(device).draw(start.proxy.sizes());
        weights_.push_back({(start.proxy + noise / noise.norm()).requires_grad_(), start.base});
        proxies.push_back(weights_.back().proxy);
      }
    }
    optimizer_ =
        std::make_unique<torch::optim::SGD>(proxies, torch::optim::SGDOptions(1e-4).momentum(kMomentum));
  }

  double step() override {
    std::vector<at::Tensor> gradients;
    for (const auto& weight : weights_)
      gradients.push_back(Noise::shared(device_).draw(weight.proxy.sizes()));
    return seconds_of(
        [&] {
          optimizer_->zero_grad();
          // One after the other, so that no more than one weight's graph is held.
          for (size_t i = 0; i < weights_.size(); ++i) make(weights_[i]).backward(gradients[i]);
          optimizer_->step();
        },
        device_);
  }

  double defect() const override {
    const at::NoGradGuard no_grad;
    double worst = 0;
    for (const auto& weight : weights_) {
      const auto k = make(weight).flatten(1);
      if (parametrization_ != Parametrization::kOmdsm) {
        worst = std::max(worst, worst_defect(k, false));
        continue;
      }
      int64_t first = 0;
      for (const auto rows : omdsm_groups(k.size(0), k.size(1), omdsm_.group_size)) {
        worst = std::max(worst, worst_defect(k.narrow(0, first, rows), false));
        first += rows;
      }
    }
    return worst;
  }

 private:
  struct Weight {
    at::Tensor proxy;
    at::Tensor base;
  };
  at::Tensor make(const Weight& weight) const {
    return orthonormal_weight(weight.proxy, parametrization_, weight.base, omdsm_);
  }

  at::Device device_;
  Parametrization parametrization_;
  OmdsmOptions omdsm_;
  std::vector<Weight> weights_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
};

}  // namespace

std::unique_ptr<Run> parametrized_run(const Workload& workload, const at::Device& device,
                                      Parametrization parametrization) {
  return std::make_unique<ParametrizedRun>(workload, device, parametrization);
}

}  // namespace stiefel::bench
