#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>

#include <optional>

/// Initialisers that put a weight on the Stiefel manifold, in place. Each reads the weight as
/// stiefel::MatrixView does and returns it.
namespace stiefel::init {

/// Uniformly distributed on the manifold (Haar): the Q factor of a Gaussian matrix, its phases made unique.
STIEFEL_API at::Tensor haar_(const at::Tensor& weight, bool batched = false,
                             std::optional<at::Generator> generator = std::nullopt);

/// Ones on the diagonal, zeros elsewhere.
STIEFEL_API at::Tensor identity_(const at::Tensor& weight, bool batched = false);

/// A Hadamard matrix over √n (Sylvester's construction). Square, of a size that is a power of two.
STIEFEL_API at::Tensor hadamard_(const at::Tensor& weight, bool batched = false);

/// 2×2 rotations by random angles down the diagonal, and a one in the corner where the size is odd. Square.
STIEFEL_API at::Tensor block_rotation_(const at::Tensor& weight, bool batched = false,
                                       std::optional<at::Generator> generator = std::nullopt);

}  // namespace stiefel::init
