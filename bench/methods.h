#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "product_counter.h"
#include "workloads.h"

namespace stiefel::bench {

/// A workload in the hands of one method: its weights, and the state that its steps carry on. Weights start
/// orthonormal, the momentum (0.9) in its steady state, and the rates are such that α‖W‖_F is near 0.1.
class Run {
 public:
  virtual ~Run() = default;

  /// Draws new gradients, takes one step and returns the seconds that the step took.
  virtual double step() = 0;

  /// The largest ‖XᵀX − I‖_F of the weights.
  virtual double defect() const = 0;

  /// The products in one step; zero where nobody counted.
  virtual Operations operations() const { return {}; }
};

struct Method {
  std::string name;   ///< as it appears in --benchmark_filter
  std::string title;  ///< as it appears in the table
  bool ours = false;
  bool on_manifold = true;
  bool slow = false;  ///< not for --quick; on whole networks measured on one matrix a shape and multiplied

  std::function<std::unique_ptr<Run>(const Workload&)> begin;
};

std::vector<Method> methods(bool quick);

}  // namespace stiefel::bench
