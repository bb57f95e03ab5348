#pragma once

#include <ATen/ATen.h>

namespace stiefel::detail {

/// The gradients of a batch (B, p, n): their lengths, and which matrices must not move because their gradient
/// is not finite, or so large that MᴴM would overflow.
struct Gradients {
  at::Tensor norm;  ///< ‖G‖_F, (B) doubles
  at::Tensor kept;  ///< (B) bools; undefined where all may move

  /// Looks at g and counts the kept matrices in `skipped`.
  Gradients(const at::Tensor& g, const at::Tensor& skipped);

  /// g, with zeros where a matrix is kept, so that no product meets a NaN.
  at::Tensor clean(const at::Tensor& g) const;

  /// m ← decay·m + gain·g for the matrices that move.
  void accumulate_(at::Tensor& m, const at::Tensor& g, double decay, double gain) const;
};

}  // namespace stiefel::detail
