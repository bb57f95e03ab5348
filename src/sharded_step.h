#pragma once

#include <ATen/ATen.h>
#include <stiefel/sharding.h>

#include "operators.h"
#include "step_matrices.h"

namespace stiefel::detail {

/// A step of matrices that are divided among ranks along their long side: E, S, T and ‖G‖² are summed over
/// the ranks, everything else is each rank's own. All weights of the step share the messages: one with E, S
/// and ‖G‖², one with T and the second look's S. Cayley Muon needs one number per matrix between them, and
/// Nesterov's momentum one S more.
void sharded_step(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                  const at::Tensor& rate, StepCounters counters, bool batched, const UpdateRule& rule,
                  const CayleyOptions& options, const Sharding& sharding);

}  // namespace stiefel::detail
