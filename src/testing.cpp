#include <stiefel/init.h>
#include <stiefel/manifold.h>
#include <stiefel/testing.h>

#include <algorithm>
#include <sstream>

namespace stiefel::testing {

namespace {

double length_of(const at::Tensor& t) { return at::linalg_vector_norm(t, 2).item<double>(); }

}  // namespace

bool RetractionReport::ok(double tolerance, double derivative_tolerance) const {
  // Written so that a NaN fails.
  return at_zero <= tolerance && off_manifold <= tolerance && derivative <= derivative_tolerance;
}

std::string RetractionReport::describe() const {
  std::ostringstream text;
  text << "‖R(0) − X‖ = " << at_zero << ", ‖dR(0)ξ − ξ‖ = " << derivative << ", ‖RᴴR − I‖ = " << off_manifold;
  return text.str();
}

at::Tensor random_point(const at::Tensor& like, bool batched) {
  auto point = at::empty_like(like).detach();
  return init::haar_(point, batched);
}

at::Tensor random_tangent(const at::Tensor& point, bool batched) {
  const auto tangent = project_tangent(point, at::randn_like(point), batched);
  return tangent / std::max(length_of(tangent), 1e-300);
}

RetractionReport check_retraction(const Retraction& retraction, const at::Tensor& like, int64_t trials,
                                  double length) {
  const bool batched = true;  // a retraction takes (…, p, n)
  // Central differences: the error is h² of the curve's third derivative plus roundoff over h.
  const double h = c10::toRealValueType(like.scalar_type()) == at::kDouble ? 1e-4 : 1e-2;
  RetractionReport report;
  const auto worst = [](double& so_far, double value) {
    if (!(value <= so_far)) so_far = value;  // a NaN stays
  };
  for (int64_t i = 0; i < trials; ++i) {
    const auto x = random_point(like, batched);
    const auto xi = random_tangent(x, batched);
    worst(report.at_zero, length_of(retraction(x, at::zeros_like(x)) - x));
    const auto slope = (retraction(x, xi * h) - retraction(x, xi * -h)) / (2 * h);
    worst(report.derivative, length_of(slope - xi));
    worst(report.off_manifold, defect(retraction(x, xi * length), batched).max().item<double>());
  }
  return report;
}

}  // namespace stiefel::testing
