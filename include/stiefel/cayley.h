#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>
#include <stiefel/sharding.h>

#include <string>

/// The Cayley step on the Stiefel manifold, as functions of tensors.
///
/// The paper moves an orthonormal matrix X along its momentum M by the Cayley transform of a skew n×n matrix
///
///     W = Ŵ − Ŵᴴ,  Ŵ = MXᴴ − ½X(XᴴMXᴴ);   Y(α) = (I − α/2 W)⁻¹(I + α/2 W)X,
///
/// approximated by s rounds of Y ← X + α/2 W(X + Y). W never needs to exist: with Ω = XᴴM and
/// R = MᴴM + Ω² every iterate is Y = X + XF + MC for p×p matrices F and C, so a step costs six products of
/// n×p by p×p and a handful of p×p ones. Two corrections keep X orthonormal to rounding for good: what X has
/// drifted (E = XᴴX − I) is removed on the way in, what the truncated iteration leaves on the way out.
///
/// Here and in the optimisers, M has the sign of the gradient, as LibTorch's own buffers have, and X moves
/// along −M; the paper's M is the negative of it.
namespace stiefel {

/// Which norm of W bounds the step, α = min(rate, 2q/(‖W‖ + ε)).
enum class Norm {
  kFrobenius,  ///< ‖W‖_F, from p×p matrices
  kOne,        ///< the largest column sum, which the released code takes; builds the n×n W: for comparison
  kSpectral,   ///< an estimate of ‖W‖₂ by power iteration with a margin of 10 %
};

/// The arithmetic of a step on float32 matrices on a GPU for which there are kernels (kernels_on() of
/// device_kernels.h says which). Elsewhere, and for other types and other forms of
/// the step (closed-form, not polished, another norm than Frobenius, s other than 2; Cayley Muon with an
/// exact root, Nesterov's momentum or more than two rounds), every step is full.
enum class Precision {
  kFull,  ///< products in the matrices' own type
  /// Products on half-precision pieces, several times faster, arranged so that ‖XᴴX − I‖ stays at about 1e-5
  /// (up to 1.5e-4 where the gradient's normal part is far larger than its tangent part).
  kMixed,
};

STIEFEL_API std::string to_string(Precision precision);
STIEFEL_API Precision precision_from_string(const std::string& name);

STIEFEL_API std::string to_string(Norm norm);
STIEFEL_API Norm norm_from_string(const std::string& name);

/// How the Cayley transform is computed.
struct STIEFEL_API CayleyOptions {
  double q = 0.5;          ///< the contraction factor: α‖W‖ ≤ 2q
  double eps = 1e-8;       ///< guards the divisions, as in the paper
  int64_t iterations = 2;  ///< s, the rounds of the fixed-point iteration
  bool exact = false;      ///< the closed form by one p×p solve; then α = min(rate, u^(−¼)/‖W‖_F)
  Norm norm = Norm::kFrobenius;
  bool polish = true;  ///< false: the paper's iteration to the letter, which drifts
  Precision precision = Precision::kFull;

  /// Throws c10::Error naming the first value that is out of range.
  void validate() const;

  /// The largest ‖XᴴX − I‖_F from which a step can start. The paper's iteration to the letter starts
  /// anywhere; the correction of what X has drifted must converge.
  double farthest_start() const;

  template <class Self, class Visitor>
  static void visit(Self& self, const Visitor& visitor) {
    visitor("eps", self.eps);
    visitor("q", self.q);
    visitor("iterations", self.iterations);
    visitor("exact", self.exact);
    visitor("polish", self.polish);
    visitor("norm", self.norm);
    visitor("precision", self.precision);
  }
};

/// One step of Cayley SGD on matrices of any shapes, in place: M ← βM + G, projected, and X moves along −M.
///
/// Each tensor of `points` is a weight, read as stiefel::MatrixView reads it: (c_out, …) is one matrix, or
/// with `batched` (…, p, n) is a stack of them; channels-last weights are stepped where they lie. `rate` is
/// one float or double on the device of the points, so nothing synchronises with the host there.
///
/// A matrix keeps its point and momentum, and `skipped` (one int64) counts it, where its gradient is not
/// finite, and where the point is off the manifold by more than kFarthestStart (with `polish`): loaded or
/// scaled, say, since the last step; and without `polish` where the step would not be finite. `off_manifold`
/// (one int64), where given, counts the latter. Without it a step on the CPU throws an error that names the
/// weight, after all others have moved.
///
/// With `sharding` every rank has a part of each matrix, and all ranks call with theirs; the step is then
/// full in precision, with polish and any norm but kOne.
STIEFEL_API void cayley_sgd_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                             const at::Tensor& skipped, const at::Tensor& rate, double momentum,
                             const CayleyOptions& options = {}, bool batched = false,
                             const at::Tensor& off_manifold = {}, const Sharding& sharding = {});

/// One step of Cayley ADAM: M ← β₁M + (1−β₁)G, v ← β₂v + (1−β₂)‖G‖²_F, k ← k + 1, and X moves along −M/r with
/// r = (1−β₁ᵏ)√(v/(1−β₂ᵏ) + ε). `second_moments` (v) and `steps` (k) hold one double per matrix.
STIEFEL_API void cayley_adam_(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                              at::TensorList steps, at::TensorList gradients, const at::Tensor& skipped,
                              const at::Tensor& rate, double beta1, double beta2,
                              const CayleyOptions& options = {}, bool batched = false,
                              const at::Tensor& off_manifold = {}, const Sharding& sharding = {});

/// The Cayley retraction: the point reached from `point` along the tangent vector `direction` in unit time.
/// With `options.exact` the curve is the closed form.
STIEFEL_API at::Tensor cayley_retraction(const at::Tensor& point, const at::Tensor& direction,
                                         const CayleyOptions& options = {}, bool batched = false);

/// W itself, (…, n, n), of the matrices as stiefel::MatrixView reads them, with X = xᴴ and M = mᴴ of the
/// rows. No step needs it: for checks and comparisons.
STIEFEL_API at::Tensor generator(const at::Tensor& point, const at::Tensor& direction, bool batched = false);

/// ‖W‖ of the skew matrix that moves `point` along `direction`, one number per matrix, in double.
STIEFEL_API at::Tensor generator_norm(const at::Tensor& point, const at::Tensor& direction, Norm norm,
                                      bool batched = false);

}  // namespace stiefel
