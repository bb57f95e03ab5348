#include <stiefel/manifold.h>
#include <stiefel/retractions.h>

#include <cmath>
#include <limits>

#include "algebra.h"

// Steps that go straight and pull X towards the manifold: POGO and landing. In rows, as everywhere: x is
// (B, p, n) and X = xᴴ, so D(I + E) is (I + E)d and XSᴴ is Sx.

namespace stiefel {

using detail::drift;
using detail::frobenius;
using detail::hermitian;
using detail::overlap;
using detail::skew;

namespace {

// The part of landing's ε that is kept free for rounding, so that ε itself is never passed.
constexpr double kMargin = 1e-4;

// What rounding adds to F along the normal, in units of u√p‖D‖_F.
constexpr double kRounding = 4;

/// F = skew(DXᴴ)X + λXE, E = XᴴX − I. With S = XᴴD the first part is ½(D(I + E) − XSᴴ). It is the n×n skew
/// matrix ½(DXᴴ − XDᴴ) times X, so it leaves XᴴX alone to first order wherever X is, and it is orthogonal to
/// the second part, X times a Hermitian matrix.
at::Tensor field(const Descent& step, const at::Tensor& e, double lambda) {
  auto s = overlap(step.x, step.d);
  if (step.keep) {
    // The kept direction is D − XΣ, Σ the Hermitian part of S. Its skew part is the same: XΣXᴴ is Hermitian.
    const auto sigma = hermitian(s);
    at::Tensor d = step.d;
    d.baddbmm_(sigma, step.x, 1, -1);
    s = skew(s).baddbmm_(e, sigma, 1, -1);  // Xᴴ(D − XΣ) = Ω − EΣ
  }
  const auto f = at::baddbmm(step.d, e, step.d, 0.5, 0.5);  // ½D(I + E)
  return f.baddbmm(e.mul(lambda).sub_(s, 0.5), step.x);     // + X(λE − ½Sᴴ)
}

/// The longest η after which d = ‖E‖_F is at most ε, less what rounding may add. With g = ‖F‖_F the next E is
/// E − 2ηλ(E + E²) + η²FᴴF, so the next d is at most d − 2ηλd(1 − d) + η²g² while η ≤ 1/(2λ). What rounding
/// leaves of D's normal part in F, at most r, adds 2ηr: all of F may be that where D is normal. With
/// b = λd(1 − d) − r the bound is ε at
///     η = (b + √(b² + g²(ε − d)))/g².
/// A start beyond ε takes the η where the bound is least, and stays where it has none. From d = 1 on nothing
/// is certain: NaN, a step that fails.
at::Tensor safe_step(const at::Tensor& d, const at::Tensor& g, const at::Tensor& r, const Landing& landing) {
  const double epsilon = (1 - kMargin) * landing.epsilon;
  const auto b = d * (1 - d) * landing.lambda - r;
  const auto room = (epsilon - d).clamp_min_(0);
  const auto squared = g.square().clamp_min_(std::numeric_limits<double>::min());
  const auto root = (b.square() + squared * (epsilon - d)).clamp_min_(0).sqrt_();
  // The same without the difference of two like numbers where b is negative; both are 0 where there is no
  // room.
  const auto falling = room.div(root.sub(b).clamp_min_(std::numeric_limits<double>::min()));
  return at::where(b < 0, falling, (b + root) / squared)
      .clamp_max_(0.5 / landing.lambda)
      .masked_fill_(d >= 1, NAN);
}

}  // namespace

void Pogo::descend_(const Descent& step) const {
  at::Tensor x = step.x;
  const auto y = at::addcmul(x, field(step, drift(x), 0), step.rate, -1);  // Y = X − lξ
  at::baddbmm_out(x, y, drift(y), y, 1, -0.5);                             // Y + ½Y(I − YᴴY)
}

void Landing::validate() const {
  TORCH_CHECK(lambda > 0 && std::isfinite(lambda), "stiefel: landing's lambda must be positive; got ",
              lambda);
  TORCH_CHECK(epsilon > 0 && epsilon <= kFarthestStart, "stiefel: landing's epsilon must be in (0, ",
              kFarthestStart, "]; got ", epsilon);
}

void Landing::descend_(const Descent& step) const {
  at::Tensor x = step.x;
  const auto e = drift(x);
  const double rounding = kRounding * detail::unit_roundoff(x) * std::sqrt(static_cast<double>(x.size(1)));
  const auto r = frobenius(step.d).mul_(rounding);  // before a kept direction loses its normal part
  const auto f = field(step, e, lambda);
  const auto eta = at::minimum(step.rate, detail::spread(safe_step(frobenius(e), frobenius(f), r, *this), x));
  x.addcmul_(f, eta, -1);  // X − ηF
}

void Landing::visit(const GroupOptions::Visitor& visitor) {
  visitor.number("lambda", lambda);
  visitor.number("epsilon", epsilon);
}

}  // namespace stiefel
