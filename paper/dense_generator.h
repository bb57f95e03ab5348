#pragma once

#include <ATen/core/Tensor.h>

/// The paper's n×n matrix, formed as it is printed: the reference for what the library computes without it.
namespace stiefel::paper {

/// W = Ŵ − Ŵᴴ,  Ŵ = MXᴴ − ½X(XᴴMXᴴ), for X tall.
at::Tensor dense_generator(const at::Tensor& x, const at::Tensor& m);

/// ‖A‖_F, real or complex.
double frobenius(const at::Tensor& a);

}  // namespace stiefel::paper
