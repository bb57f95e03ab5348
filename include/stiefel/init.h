#pragma once

#include <ATen/ATen.h>
#include <c10/util/Optional.h>

/// Initialisers that put a weight on the Stiefel manifold, in place. Each reads the weight as
/// stiefel::MatrixView does and returns it.
namespace stiefel::init {

/// Uniformly distributed on the manifold (Haar): the Q factor of a Gaussian matrix, its phases made unique.
at::Tensor& haar_(at::Tensor& weight, bool batched = false,
                  c10::optional<at::Generator> generator = c10::nullopt);

/// Ones on the diagonal, zeros elsewhere.
at::Tensor& identity_(at::Tensor& weight, bool batched = false);

/// A Hadamard matrix over √n (Sylvester's construction). Square, of a size that is a power of two.
at::Tensor& hadamard_(at::Tensor& weight, bool batched = false);

/// 2×2 rotations by random angles down the diagonal, and a one in the corner where the size is odd. Square.
at::Tensor& block_rotation_(at::Tensor& weight, bool batched = false,
                            c10::optional<at::Generator> generator = c10::nullopt);

}  // namespace stiefel::init
