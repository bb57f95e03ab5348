#pragma once

#include <cstdint>

namespace stiefel::bench {

/// A workload that one method steps: its weights, and the state that its steps carry on. Weights start
/// orthonormal, the momentum (0.9) in its steady state, and the learning rates are such that α‖W‖_F is near
/// 0.1.
class Run {
 public:
  virtual ~Run() = default;

  /// Draws new gradients, takes one step and returns the seconds that the step took.
  virtual double step() = 0;

  /// One step without timing, by gradient set number `gradients`. A number means the same gradients in every
  /// call, so that the step can be captured into a CUDA graph. Returns false where the method has no step
  /// that is separate from a forward and backward pass.
  virtual bool bare_step(int64_t /*gradients*/) { return false; }

  /// The largest ‖XᵀX − I‖_F of the weights.
  virtual double defect() const = 0;
};

}  // namespace stiefel::bench
