#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>

#include <functional>
#include <string>

/// Helpers to check a retraction, yours or ours. They know no test framework: each returns what it measured.
namespace stiefel::testing {

/// Maps a point (…, p, n) of the manifold and a tangent vector of the same shape to a point of the manifold.
using Retraction = std::function<at::Tensor(const at::Tensor& point, const at::Tensor& tangent)>;

/// How far a map is from being a retraction, measured on random points and unit tangent vectors.
struct STIEFEL_API RetractionReport {
  double at_zero = 0;       ///< ‖R(0) − X‖_F, worst of the trials
  double derivative = 0;    ///< ‖(R(hξ) − R(−hξ))/2h − ξ‖_F
  double off_manifold = 0;  ///< ‖RᴴR − I‖_F at R(ξ)

  /// Whether R(0) = X and R(ξ) is on the manifold to `tolerance`, and the derivative is the identity to the
  /// accuracy of central differences.
  bool ok(double tolerance = 1e-10, double derivative_tolerance = 1e-6) const;
  std::string describe() const;
};

/// Checks that R is a retraction: R(0) = X, its derivative there is the identity, and it stays on the
/// manifold. `like` gives the shape, type and device; double is the type to check in.
STIEFEL_API RetractionReport check_retraction(const Retraction& retraction, const at::Tensor& like,
                                              int64_t trials = 8, double length = 0.5);

/// A random point of the manifold and a random unit tangent vector there.
STIEFEL_API at::Tensor random_point(const at::Tensor& like, bool batched = false);
STIEFEL_API at::Tensor random_tangent(const at::Tensor& point, bool batched = false);

}  // namespace stiefel::testing
