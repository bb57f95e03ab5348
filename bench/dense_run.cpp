#include "dense_run.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "dense_step.h"
#include "noise.h"
#include "start.h"

namespace stiefel::bench {

namespace {

class DenseRun : public Run {
 public:
  DenseRun(const Workload& workload, const at::Device& device) : device_(device) {
    for (const auto& layer : workload.layers) {
      if (layer.p() > layer.n()) {
        throw std::invalid_argument("the dense step takes p×n weights with p ≤ n; got " +
                                    std::to_string(layer.p()) + "×" + std::to_string(layer.n()));
      }
      const auto& start = start_of(layer, device);
      const auto stack = start.point.view({-1, layer.p(), layer.n()});
      for (int64_t i = 0; i < layer.count; ++i) {
        const auto momentum = Noise::shared(device).draw(stack.sizes()) * kGrowth;
        pieces_.push_back({stack.clone(), momentum, {}, start.rate(kGrowth)});
      }
    }
  }

  double step() override {
    const at::NoGradGuard no_grad;
    for (auto& piece : pieces_) piece.g = Noise::shared(device_).draw(piece.x.sizes());
    return seconds_of(
        [this] {
          for (auto& piece : pieces_) dense_step_(piece.x, piece.m, piece.g, piece.rate, kMomentum);
        },
        device_);
  }

  double defect() const override {
    double worst = 0;
    for (const auto& piece : pieces_) worst = std::max(worst, worst_defect(piece.x, true));
    return worst;
  }

 private:
  struct Piece {
    at::Tensor x;  // (B, p, n)
    at::Tensor m;
    at::Tensor g;
    double rate;
  };
  at::Device device_;
  std::vector<Piece> pieces_;
};

}  // namespace

std::unique_ptr<Run> dense_run(const Workload& workload, const at::Device& device) {
  return std::make_unique<DenseRun>(workload, device);
}

}  // namespace stiefel::bench
