#pragma once

#include <ATen/ATen.h>
#include <stiefel/cayley.h>

#include <initializer_list>
#include <utility>

/// What the operators' implementations share.
namespace stiefel::detail {

/// The steps by ATen's operators, on any device: one batch a shape.
void cayley_sgd_any_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                     const at::Tensor& skipped, const at::Tensor& rate, double momentum,
                     const CayleyOptions& options);
void cayley_adam_any_(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                      at::TensorList steps, at::TensorList gradients, const at::Tensor& skipped,
                      const at::Tensor& rate, double beta1, double beta2, const CayleyOptions& options);

/// Throws where a list is not as long as `points`.
void check_lists(at::TensorList points, std::initializer_list<std::pair<const char*, at::TensorList>> others);

/// An operator's arguments as options, checked.
CayleyOptions pack(double q, double eps, int64_t iterations, bool exact, c10::string_view norm, bool polish,
                   c10::string_view precision);

}  // namespace stiefel::detail
