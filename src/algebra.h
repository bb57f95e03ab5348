#pragma once

#include <ATen/ATen.h>

/// The products and small-matrix helpers that every step is written in.
///
/// A batch holds B matrices as rows: x is (B, p, n) with p ≤ n, the way weights lie in memory. The p×p
/// algebra on top of it is in the paper's tall notation, X = xᴴ, so XᴴM is x mᴴ and XF is the adjoint of Fᴴx.
namespace stiefel::detail {

/// XᴴM.
at::Tensor overlap(const at::Tensor& x, const at::Tensor& m);

/// XᴴX. Large ones are computed as upper panels and mirrored: 5/8 of the arithmetic.
at::Tensor gram(const at::Tensor& x);

/// AB of Hermitian matrices that commute, which is Hermitian too: large ones by halves, as above.
at::Tensor commuting_product(const at::Tensor& a, const at::Tensor& b);

/// E = XᴴX − I, how far X has drifted from the manifold. The diagonal is a sum of squares: a matrix product
/// accumulates it with twenty times the error, and it is where the sum is 1 that rounding shows.
at::Tensor drift(const at::Tensor& x);

/// Its diagonal before 1 is subtracted: ‖xᵢ‖² of every row, (B, p).
at::Tensor row_squares(const at::Tensor& x);

/// ½(A + Aᴴ) and ½(A − Aᴴ).
at::Tensor hermitian(const at::Tensor& a);
at::Tensor skew(const at::Tensor& a);

/// ‖A‖_F and the real part of tr AᴴB, one number per matrix, in double.
at::Tensor frobenius(const at::Tensor& a);
at::Tensor real_trace(const at::Tensor& a, const at::Tensor& b);

/// The largest entry in absolute value (of real and imaginary parts), one number per matrix, in double.
at::Tensor entry_norm(const at::Tensor& a);

/// The real part of tr A, one number per matrix, in double.
at::Tensor real_trace(const at::Tensor& a);

/// A + cI, in place.
at::Tensor& add_diagonal_(at::Tensor& a, const at::Tensor& c);
at::Tensor& add_diagonal_(at::Tensor& a, double c);

/// A per-matrix scalar (B) as (B, 1, 1) in the real type of `like`, ready to multiply a batch.
at::Tensor spread(const at::Tensor& scalar, const at::Tensor& like);

/// The unit roundoff of a tensor's arithmetic.
double unit_roundoff(const at::Tensor& t);

}  // namespace stiefel::detail
