#include "whitening_run.h"

#include <stiefel/nn/decorrelated_batch_norm.h>

#include <algorithm>
#include <limits>

#include "optimizer_run.h"
#include "start.h"

namespace stiefel::bench {

namespace {

constexpr int64_t kBatch = 128;

class WhiteningRun : public Run {
 public:
  WhiteningRun(const NetworkWorkload& network, const at::Device& device)
      : device_(device), activations_(network.activations), update_(sgd_run(network.weights, device)) {
    int64_t most = 0;
    for (const auto& a : activations_) {
      most = std::max(most, kBatch * a.channels * a.height * a.width);
      layers_.emplace_back(a.channels);
      layers_.back()->to(device);
    }
    // One buffer serves all layers; a network would hold them all.
    input_ = at::randn({most}, device);
    gradient_ = at::randn({most}, device);
  }

  double step() override {
    double total = update_->step();
    for (size_t i = 0; i < activations_.size(); ++i) {
      const auto& a = activations_[i];
      const auto shaped = [&](const at::Tensor& buffer) {  // (N, C, H, W), channels last
        return buffer.narrow(0, 0, kBatch * a.channels * a.height * a.width)
            .view({kBatch, a.height, a.width, a.channels})
            .permute({0, 3, 1, 2});
      };
      const auto gradient = shaped(gradient_);
      for (int64_t k = 0; k < a.count; ++k) {
        const auto x = shaped(input_).detach().requires_grad_();
        total += seconds_of([&] { layers_[i]->forward(x).backward(gradient); }, device_);
      }
    }
    return total;
  }

  double defect() const override { return std::numeric_limits<double>::quiet_NaN(); }

 private:
  at::Device device_;
  std::vector<Activation> activations_;
  std::unique_ptr<Run> update_;
  std::vector<nn::DecorrelatedBatchNorm2d> layers_;
  at::Tensor input_;
  at::Tensor gradient_;
};

}  // namespace

std::unique_ptr<Run> whitening_run(const NetworkWorkload& network, const at::Device& device) {
  return std::make_unique<WhiteningRun>(network, device);
}

}  // namespace stiefel::bench
