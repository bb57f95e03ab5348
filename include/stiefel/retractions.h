#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>
#include <stiefel/optim/group_options.h>

#include <type_traits>

/// Retractions: ways to move a point of the Stiefel manifold along a tangent vector and stay on the manifold.
///
/// A retraction is a policy, a small type that RetractionSGD and CurvilinearSearch are instantiated with. Any
/// copyable type serves that can be called as R(point, tangent) → point for tensors (…, p, n) and has a name:
///
///     struct MyRetraction {
///       static constexpr const char* kName = "mine";
///       at::Tensor operator()(const at::Tensor& point, const at::Tensor& tangent) const;
///     };
///
/// stiefel::testing::check_retraction tells whether it is one. The policies here can also take a whole step
/// (`descend_`), which saves them products; the last two, Pogo and Landing, are no retractions and have that
/// alone.
namespace stiefel {

/// One step of a batch: X moves from where it is along −l times the tangent part of D.
struct Descent {
  at::Tensor x;     ///< (B, p, n) rows, orthonormal, p ≤ n; moved in place
  at::Tensor d;     ///< the direction, any matrix of that shape, with the gradient's sign
  bool keep;        ///< whether D is a momentum: then it must be left tangent at the old X; else only read
  at::Tensor rate;  ///< l, (B, 1, 1)
};

/// X − lξ is replaced by its polar factor UVᴴ, the nearest orthonormal matrix. Repairs drift.
struct STIEFEL_API Polar {
  static constexpr const char* kName = "polar";

  enum class By {
    kSvd,           ///< LAPACK's singular value decomposition of the n×p matrix
    kNewtonSchulz,  ///< (YᴴY)^(−½) by a coupled Newton–Schulz iteration on p×p matrices
  };
  By by = By::kSvd;
  int64_t rounds = 12;  ///< of Newton–Schulz at most; on the CPU it stops when it has converged

  /// Throws c10::Error where `rounds` is out of range.
  void validate() const;
  at::Tensor operator()(const at::Tensor& point, const at::Tensor& tangent) const;
  void descend_(const Descent& step) const;
  void visit(const GroupOptions::Visitor& visitor);
};

/// X − lξ is replaced by its Q factor, made unique by a positive diagonal of R. Repairs drift.
struct STIEFEL_API Qr {
  static constexpr const char* kName = "qr";

  enum class By {
    kHouseholder,  ///< LAPACK's QR decomposition
    kCholesky,  ///< the same factor as YL⁻ᴴ with LLᴴ = YᴴY; Y is near the manifold, so that is safe
  };
  By by = By::kHouseholder;

  at::Tensor operator()(const at::Tensor& point, const at::Tensor& tangent) const;
  void descend_(const Descent& step) const;
  void visit(const GroupOptions::Visitor& visitor);
};

/// The Cayley transform by the formula of Wen and Yin (2013): W = UVᴴ has rank 2p, so its resolvent is a
/// 2p×2p solve (Sherman–Morrison–Woodbury). W is the paper's, U = [A, X], V = [X, −A], A = D − ½X(XᴴD).
/// An isometry: it keeps what drift there is.
struct STIEFEL_API WenYin {
  static constexpr const char* kName = "wen-yin";

  at::Tensor operator()(const at::Tensor& point, const at::Tensor& tangent) const;
  void descend_(const Descent& step) const;
};

/// The Cayley transform by its definition: the n×n matrix W and an n×n solve. An isometry.
struct STIEFEL_API CayleyClosed {
  static constexpr const char* kName = "cayley-closed";

  at::Tensor operator()(const at::Tensor& point, const at::Tensor& tangent) const;
  void descend_(const Descent& step) const;
};

/// The same curve by our p×p solve, CayleySGD with exact(true). Repairs drift.
struct STIEFEL_API CayleyExact {
  static constexpr const char* kName = "cayley-exact";

  at::Tensor operator()(const at::Tensor& point, const at::Tensor& tangent) const;
  void descend_(const Descent& step) const;
};

/// POGO (Javaloy and Vergari 2026): a straight step and one step along the normal, X ← Y + ½Y(I − YᴴY) with
/// Y = X − lξ and ξ = skew(DXᴴ)X, which is half the canonical gradient. That is one round of Newton–Schulz
/// towards the polar factor of Y, so XᴴX − I is −¾V² + ¼V³ after a step, V = YᴴY − I = l²ξᴴξ on the manifold:
/// small, not rounding, and never added up. Beyond l‖ξ‖ = 1 it does not come back; such a step is undone.
struct STIEFEL_API Pogo {
  static constexpr const char* kName = "pogo";

  /// A step that leaves ‖XᴴX − I‖_F beyond this is undone and counted.
  double largest_defect() const { return 0.25; }
  void descend_(const Descent& step) const;
};

/// The landing method (Ablin and Peyré 2022; Ablin, Vary, Gao and Absil 2023): no way back to the manifold,
/// but a pull towards it, X ← X − ηF with F = skew(DXᴴ)X + λX(XᴴX − I). X leaves the manifold: d = ‖XᴴX −
/// I‖_F is kept below ε, and goes to 0 only as steps do. η is the rate l, cut where the next d could pass ε.
struct STIEFEL_API Landing {
  static constexpr const char* kName = "landing";

  double lambda = 1;     ///< λ, the strength of the pull; η is at most 1/(2λ)
  double epsilon = 0.5;  ///< ε, the largest d; at most kFarthestStart

  /// Throws c10::Error where an option is out of range.
  void validate() const;
  double defect_bound() const { return epsilon; }
  void descend_(const Descent& step) const;
  void visit(const GroupOptions::Visitor& visitor);
};

namespace detail {

template <class Retraction, class = void>
struct CanDescend : std::false_type {};
template <class Retraction>
struct CanDescend<Retraction,
                  std::void_t<decltype(std::declval<Retraction>().descend_(std::declval<Descent>()))>>
    : std::true_type {};

template <class Retraction, class = void>
struct HasOptions : std::false_type {};
template <class Retraction>
struct HasOptions<Retraction, std::void_t<decltype(&Retraction::visit)>> : std::true_type {};

template <class Retraction, class = void>
struct CanValidate : std::false_type {};
template <class Retraction>
struct CanValidate<Retraction, std::void_t<decltype(std::declval<const Retraction&>().validate())>>
    : std::true_type {};

template <class Retraction, class = void>
struct HasDefectBound : std::false_type {};
template <class Retraction>
struct HasDefectBound<Retraction, std::void_t<decltype(std::declval<const Retraction&>().defect_bound())>>
    : std::true_type {};

template <class Retraction, class = void>
struct HasLargestDefect : std::false_type {};
template <class Retraction>
struct HasLargestDefect<Retraction, std::void_t<decltype(std::declval<const Retraction&>().largest_defect())>>
    : std::true_type {};

/// How far off the manifold, ‖XᴴX − I‖_F, a policy leaves X by design: 0 for a retraction.
template <class Retraction>
double defect_bound(const Retraction& retraction) {
  if constexpr (HasDefectBound<Retraction>::value) return retraction.defect_bound();
  return 0;
}

/// How far off a step of any length may end before it counts as failed: 0 for a retraction, which ends on the
/// manifold up to rounding.
template <class Retraction>
double largest_defect(const Retraction& retraction) {
  if constexpr (HasLargestDefect<Retraction>::value) return retraction.largest_defect();
  return defect_bound(retraction);
}

/// The tangent part of the direction, −l times: what a policy without descend_ is called with. Leaves a kept
/// direction tangent.
STIEFEL_API at::Tensor tangent_step(const Descent& step);

}  // namespace detail

/// Takes a step with any policy.
template <class Retraction>
void descend_(const Retraction& retraction, const Descent& step) {
  if constexpr (detail::CanDescend<Retraction>::value) {
    retraction.descend_(step);
  } else {
    step.x.copy_(retraction(step.x, detail::tangent_step(step)));
  }
}

}  // namespace stiefel
