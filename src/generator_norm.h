#pragma once

#include <stiefel/cayley.h>

/// ‖W‖ of the skew matrix W = MXᴴ − XMᴴ − XΩXᴴ that the Cayley transform turns by, one double per matrix.
namespace stiefel::detail {

/// For an orthonormal X and a tangent M: Ω = XᴴM, T = MᴴM.
at::Tensor tangent_norm(const at::Tensor& x, const at::Tensor& m, const at::Tensor& omega,
                        const at::Tensor& t, Norm norm);

/// For a square X, where W = XΩXᴴ.
at::Tensor square_norm(const at::Tensor& x, const at::Tensor& omega, Norm norm);

/// For any X and M: E = XᴴX − I, S = XᴴM, T = MᴴM.
at::Tensor literal_norm(const at::Tensor& x, const at::Tensor& m, const at::Tensor& e, const at::Tensor& s,
                        const at::Tensor& t, Norm norm);

/// The n×n W itself.
at::Tensor dense_generator(const at::Tensor& x, const at::Tensor& m, const at::Tensor& s);

/// A norm of W given W; the spectral one by power iteration like the others.
at::Tensor dense_norm(const at::Tensor& w, Norm norm);

}  // namespace stiefel::detail
