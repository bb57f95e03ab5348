#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "batches.h"
#include "step_matrices.h"

namespace stiefel::detail {

/// A batch of a step's matrices as (B, p, n); m is undefined where the method has no momentum.
struct StepSlice {
  BatchRange range;  ///< in the lists of the step
  at::Tensor x;
  at::Tensor m;
  at::Tensor g;
};

/// Calls `work` on every batch of a step's matrices, shape by shape, on several threads where that helps, and
/// writes x and m back after each.
void for_each_batch(const StepMatrices& matrices, const std::function<void(StepSlice&)>& work);

/// The numbers that belong to a range's matrices, from a list of per-matrix numbers; and back into it.
at::Tensor gather_scalars(at::TensorList list, const BatchRange& range);
void scatter_scalars(at::TensorList list, const BatchRange& range, const at::Tensor& values);

}  // namespace stiefel::detail
