#pragma once

#include <ATen/ATen.h>

#include "step_matrices.h"

namespace stiefel::detail {

/// The gradients of a batch (B, p, n): their lengths, and which matrices must not move. A matrix stays in
/// place where its gradient is not finite, or so large that MᴴM would overflow, and where it is too far off
/// the manifold for a step to draw it in.
struct Gradients {
  at::Tensor norm;    ///< ‖G‖_F, (B) doubles
  at::Tensor frozen;  ///< (B) bools; undefined where all may move

  /// Looks at g and counts the frozen matrices. `near` tells which matrices are close enough to the manifold,
  /// (B) bools; undefined stands for all.
  Gradients(const at::Tensor& g, const at::Tensor& near, const StepCounters& counters);

  /// Given ‖G‖_F, for matrices of the type and on the device of `like`.
  Gradients(const at::Tensor& norm, const at::Tensor& like, const at::Tensor& near,
            const StepCounters& counters);

  /// `matrices`, with zeros where one is frozen, so that no product meets a NaN.
  at::Tensor clean(const at::Tensor& matrices) const;

  /// m ← decay·m + gain·g for the matrices that move.
  void accumulate_(at::Tensor& m, const at::Tensor& g, double decay, double gain) const;
};

/// Adds the number of true entries to the skipped steps. Slices on several threads may count at once.
void count_skipped(const at::Tensor& which, const StepCounters& counters);

}  // namespace stiefel::detail
