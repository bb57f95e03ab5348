#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>

/// Directions with orthonormal columns: the polar factor of a matrix by products of small matrices.
///
/// M(MᴴM)^(−½) has the singular vectors of M and all its singular values 1. Muon and Cayley Muon move along
/// it instead of along M. The inverse root need not be exact for that: a few rounds of a polynomial bring
/// every singular value that matters near 1, without a decomposition.
namespace stiefel {

/// How K ≈ (MᴴM)^(−½) is computed.
struct STIEFEL_API PolarOptions {
  /// Rounds of the polynomial, 1 to 5. After 1, 2, 3, 4 and 5 rounds singular values down to 0.25, 0.064,
  /// 0.015, 0.0036 and 0.00085 of the largest possible one are within 15 % of 1; smaller ones stay smaller,
  /// and in float so do those below 0.01, which a Gram matrix holds too inaccurately.
  int64_t rounds = 2;
  /// The root by an eigendecomposition instead. Singular values below about 0.01 of the largest (3e-7 in
  /// double) stay smaller than 1.
  bool exact_root = false;

  /// Throws c10::Error where `rounds` is out of range.
  void validate() const;

  template <class Self, class Visitor>
  static void visit(Self& self, const Visitor& visitor) {
    visitor("rounds", self.rounds);
    visitor("exact_root", self.exact_root);
  }
};

/// MK of each matrix of a weight, read as stiefel::MatrixView reads it: singular values near 1, and the zero
/// matrix for the zero matrix. Half and bfloat16 are computed in float.
STIEFEL_API at::Tensor polar_direction(const at::Tensor& weight, const PolarOptions& options = {},
                                       bool batched = false);

}  // namespace stiefel
