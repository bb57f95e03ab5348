#include "optimizer_run.h"

#include <stiefel/optim/euclidean.h>

#include <cmath>

namespace stiefel::bench {

namespace {

const auto leave_state = [](torch::optim::OptimizerParamState&) {};

}  // namespace

std::unique_ptr<OptimizerRun<CayleyAdam>> cayley_adam_run(const Workload& workload, const at::Device& device,
                                                          Precision precision) {
  const auto options = [precision](const Layer& layer, const Start& start) {
    // The first moment averages, which is (1 − β₁) times Cayley SGD's momentum, and r becomes ‖G‖_F.
    const double rate = start.rate(kGrowth * (1 - kMomentum)) * start.gradient;
    return CayleyAdamOptions(rate).betas({kMomentum, kBeta2}).batched(layer.batched).precision(precision);
  };
  const auto settle = [](torch::optim::OptimizerParamState& state) {
    auto& adam = static_cast<CayleyAdamParamState&>(state);
    adam.exp_avg.mul_(kGrowth);
    adam.second_moment.div_(1 - kBeta2);
    adam.step.fill_(1000);
  };
  return std::make_unique<OptimizerRun<CayleyAdam>>(workload, device, options, settle);
}

std::unique_ptr<Run> cayley_muon_run(const Workload& workload, const at::Device& device,
                                     Precision precision) {
  const auto options = [precision](const Layer& layer, const Start&) {
    // ‖W‖²_F of p orthonormal directions is about 2p.
    const double angle = kTurn / std::sqrt(2.0 * static_cast<double>(std::min(layer.p(), layer.n())));
    return CayleyMuonOptions(angle).momentum(kMomentum).batched(layer.batched).precision(precision);
  };
  return std::make_unique<OptimizerRun<CayleyMuon>>(workload, device, options, settle_momentum);
}

std::unique_ptr<Run> sgd_run(const Workload& workload, const at::Device& device) {
  const auto options = [](const Layer&, const Start& start) {
    return torch::optim::SGDOptions(start.rate(kGrowth)).momentum(kMomentum);
  };
  return std::make_unique<OptimizerRun<SGD>>(workload, device, options, leave_state);
}

std::unique_ptr<Run> adam_run(const Workload& workload, const at::Device& device) {
  const auto options = [](const Layer&, const Start&) { return torch::optim::AdamOptions(1e-3); };
  return std::make_unique<OptimizerRun<Adam>>(workload, device, options, leave_state);
}

}  // namespace stiefel::bench
