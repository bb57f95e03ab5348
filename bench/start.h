#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "workloads.h"

/// How every method's run begins, so that all are timed under the same conditions.
namespace stiefel::bench {

constexpr double kMomentum = 0.9;
constexpr double kBeta2 = 0.99;
constexpr double kTurn = 0.1;  // the α‖W‖_F to aim at: what training shows at its first rate

/// M = βM + G grows to 1/√(1 − β²) times a single random gradient.
extern const double kGrowth;

/// The seconds that `work` takes, until the device has finished it.
double seconds_of(const std::function<void()>& work, const at::Device& device = at::kCPU);

/// How a layer starts: a point, and the length of its gradients.
struct Start {
  at::Tensor point;      ///< the weight, uniformly distributed on the manifold
  double gradient = 0;   ///< ‖G‖_F
  double generator = 0;  ///< ‖W‖_F of one gradient

  /// The learning rate at which α‖W‖_F of the momentum is kTurn; `growth` is the momentum's length over a
  /// gradient's. A 1×1 matrix cannot turn, so its rate does not matter.
  double rate(double growth) const { return generator > 0 ? kTurn / (growth * generator) : kTurn; }
};

/// One start serves all weights of a shape and all methods: their gradients differ from the first step on.
const Start& start_of(const Layer& layer, const at::Device& device = at::kCPU);

double worst_defect(const at::Tensor& weight, bool batched);

}  // namespace stiefel::bench
