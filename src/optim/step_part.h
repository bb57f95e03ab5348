#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace stiefel::detail {

/// A part of an optimiser's step.
struct StepPart {
  using Choice = std::function<bool(const at::Tensor& parameter)>;

  bool euclidean = false;  ///< all Euclidean groups
  bool manifold = false;   ///< those weights on the manifold that `takes` names and that have a gradient
  Choice takes;
  Choice in_step;  ///< which weights on the manifold the whole step moves; none: the part is the whole step

  static StepPart all() {
    return {true, true, [](const at::Tensor&) { return true; }, nullptr};
  }
};

}  // namespace stiefel::detail
