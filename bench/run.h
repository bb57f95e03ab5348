#pragma once

#include <cstdint>

#include "product_counter.h"

namespace stiefel::bench {

/// A workload in the hands of one method: its weights, and the state that its steps carry on. Weights start
/// orthonormal, the momentum (0.9) in its steady state, and the rates are such that α‖W‖_F is near 0.1.
class Run {
 public:
  virtual ~Run() = default;

  /// Draws new gradients, takes one step and returns the seconds that the step took.
  virtual double step() = 0;

  /// One step without a clock, by the gradients of a number: the same in every call, so that it can be
  /// captured into a CUDA graph. Returns false where the method has none that is only a step.
  virtual bool bare_step(int64_t /*gradients*/) { return false; }

  /// The largest ‖XᵀX − I‖_F of the weights.
  virtual double defect() const = 0;

  /// The products in one step; zero where nobody counted.
  virtual Operations operations() const { return {}; }
};

}  // namespace stiefel::bench
