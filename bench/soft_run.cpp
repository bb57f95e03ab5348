#include "soft_run.h"

#include <torch/optim/sgd.h>

#include <limits>
#include <vector>

#include "noise.h"
#include "start.h"

namespace stiefel::bench {

namespace {

constexpr double kWeight = 1e-3;

class SoftRun : public Run {
 public:
  SoftRun(const Workload& workload, const at::Device& device, Penalty kind) : device_(device), kind_(kind) {
    for (const auto& layer : workload.layers) {
      options_.batched = layer.batched;  // a workload is of one kind
      for (int64_t i = 0; i < layer.count; ++i) {
        weights_.push_back(start_of(layer, device).point.clone().requires_grad_());
        weights_.back().mutable_grad() = at::zeros_like(weights_.back());
      }
    }
    optimizer_ =
        std::make_unique<torch::optim::SGD>(weights_, torch::optim::SGDOptions(1e-4).momentum(kMomentum));
  }

  double step() override {
    for (auto& weight : weights_) {
      // The penalty adds to it, so it must be a tensor of its own.
      weight.mutable_grad().copy_(Noise::shared(device_).draw(weight.sizes()));
    }
    return seconds_of(
        [this] {
          (penalty(kind_, weights_, options_) * kWeight).backward();
          optimizer_->step();
        },
        device_);
  }

  double defect() const override { return std::numeric_limits<double>::quiet_NaN(); }

 private:
  at::Device device_;
  Penalty kind_;
  PenaltyOptions options_;
  std::vector<at::Tensor> weights_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
};

}  // namespace

std::unique_ptr<Run> soft_run(const Workload& workload, const at::Device& device, Penalty kind) {
  return std::make_unique<SoftRun>(workload, device, kind);
}

}  // namespace stiefel::bench
