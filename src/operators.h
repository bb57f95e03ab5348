#pragma once

#include <ATen/ATen.h>
#include <stiefel/cayley.h>

#include "step_matrices.h"

/// What the operators' implementations share.
namespace stiefel::detail {

/// The steps by ATen's operators, on any device: one batch per shape.
void cayley_sgd_any_(const StepMatrices& matrices, const StepCounters& counters, const at::Tensor& rate,
                     double momentum, const CayleyOptions& options);
void cayley_adam_any_(const StepMatrices& matrices, at::TensorList second_moments, at::TensorList steps,
                      const StepCounters& counters, const at::Tensor& rate, double beta1, double beta2,
                      const CayleyOptions& options);

/// Cayley ADAM's numbers, checked: one double per matrix, none overlapping another.
void check_adam_numbers(at::TensorList second_moments, at::TensorList steps, const StepMatrices& matrices);

/// An operator's arguments as options, checked.
CayleyOptions pack(double q, double eps, int64_t iterations, bool exact, c10::string_view norm, bool polish,
                   c10::string_view precision);

}  // namespace stiefel::detail
