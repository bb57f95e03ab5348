#include <ATen/core/grad_mode.h>
#include <stiefel/retractions.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "algebra.h"
#include "generator_norm.h"
#include "rows.h"
#include "step.h"

// In rows, as everywhere: x is (B, p, n) and X = xᴴ, so X − lξ is x − lξ and XΣ is Σx.

namespace stiefel {

using detail::drift;
using detail::frobenius;
using detail::gram;
using detail::hermitian;
using detail::overlap;
using detail::skew;

namespace {

/// D ← D − XΣ with Σ the Hermitian part of XᴴD: the projection onto the tangent space. Returns Σ.
at::Tensor project_(const Descent& step, const at::Tensor& s) {
  const auto sigma = hermitian(s);
  at::Tensor d = step.d;
  d.baddbmm_(sigma, step.x, 1, -1);
  return sigma;
}

/// Y = X − lξ, ξ the tangent part of D.
at::Tensor straight(const Descent& step) {
  const auto s = overlap(step.x, step.d);
  if (step.keep) {
    project_(step, s);
    return at::addcmul(step.x, step.d, step.rate, -1);
  }
  // x − l(d − Σx), without a projected copy of d
  return at::baddbmm(step.x, hermitian(s).mul_(step.rate), step.x).addcmul_(step.d, step.rate, -1);
}

/// A retraction as a step along −(−ξ) at the rate 1.
template <class Policy>
at::Tensor retract(const Policy& policy, const at::Tensor& point, const at::Tensor& tangent) {
  TORCH_CHECK(point.sizes() == tangent.sizes(), "stiefel: the tangent's shape ", tangent.sizes(),
              " differs from the point's ", point.sizes());
  const at::NoGradGuard no_grad;
  const auto x = detail::rows(point).clone();
  const auto one = at::ones({x.size(0), 1, 1}, x.options().dtype(c10::toRealValueType(x.scalar_type())));
  policy.descend_({x, detail::rows(tangent).neg(), false, one});
  return detail::unrows(x, point);
}

/// U and Vᴴ of A = UΣVᴴ. Singular values as close together as those of X − lξ stop LAPACK's divide and
/// conquer from converging in float, one time in thirty at 256×256; then again in double.
std::tuple<at::Tensor, at::Tensor> singular_vectors(const at::Tensor& a) {
  try {
    const auto [u, values, vh] = at::linalg_svd(a, /*full_matrices=*/false);
    return {u, vh};
  } catch (const c10::Error&) {
    if (c10::toRealValueType(a.scalar_type()) == at::kDouble) throw;
    const auto [u, values, vh] =
        at::linalg_svd(a.to(a.is_complex() ? at::kComplexDouble : at::kDouble), /*full_matrices=*/false);
    return {u.to(a.scalar_type()), vh.to(a.scalar_type())};
  }
}

/// (I + V)^(−½) by the coupled Newton–Schulz iteration for A = (I + V)/c:
///     T = ½(3I − ZA'),  A' ← A'T,  Z ← TZ   from A' = A, Z = I;  A' → A^½, Z → A^(−½).
/// X − lξ has no singular value below 1, so V ≥ 0 but for rounding, and with c = 1 + ½‖V‖_F the spectrum of A
/// lies between 0 and 2, where the iteration converges: quadratically, and the sooner the shorter the step.
at::Tensor inverse_root(const at::Tensor& v, int64_t rounds) {
  const auto c = detail::spread(frobenius(v).mul_(0.5).add_(1), v);
  auto a = v.clone();
  detail::add_diagonal_(a, 1);
  a.div_(c);
  const double roundoff = detail::unit_roundoff(v);
  at::Tensor z;
  for (int64_t i = 0; i < rounds; ++i) {
    auto t = z.defined() ? at::bmm(z, a) : a.clone();  // ZA'
    // What ZA' is off from I by is squared by this round. Only the CPU can look.
    bool last = i + 1 == rounds;
    if (v.device().is_cpu()) {
      auto rest = t.clone();
      detail::add_diagonal_(rest, -1);
      last |= frobenius(rest).square_().max().item<double>() < roundoff;
    }
    t.mul_(-0.5);
    detail::add_diagonal_(t, 1.5);
    z = z.defined() ? at::bmm(t, z) : t;
    if (last) break;
    a = at::bmm(a, t);
  }
  return z.div_(c.sqrt());
}

}  // namespace

at::Tensor Polar::operator()(const at::Tensor& point, const at::Tensor& tangent) const {
  return retract(*this, point, tangent);
}

void Polar::descend_(const Descent& step) const {
  at::Tensor x = step.x;
  const auto y = straight(step);
  if (by == By::kSvd) {
    const auto [u, vh] = singular_vectors(y.mH());  // the rows of y are columns as LAPACK wants them
    at::bmm_out(x, vh.mH(), u.mH());                // (UVᴴ)ᴴ
  } else {
    at::bmm_out(x, inverse_root(drift(y), rounds), y);  // Y(YᴴY)^(−½)
  }
}

void Polar::validate() const {
  TORCH_CHECK(rounds >= 1, "stiefel: the polar factor by Newton–Schulz takes 1 round or more; got ", rounds);
}

void Polar::visit(const GroupOptions::Visitor& visitor) {
  auto index = static_cast<int64_t>(by);
  visitor.integer("polar_by", index);
  TORCH_CHECK(index == 0 || index == 1, "stiefel: no way to the polar factor has the number ", index);
  by = static_cast<By>(index);
  visitor.integer("polar_rounds", rounds);
}

at::Tensor Qr::operator()(const at::Tensor& point, const at::Tensor& tangent) const {
  return retract(*this, point, tangent);
}

void Qr::descend_(const Descent& step) const {
  at::Tensor x = step.x;
  const auto y = straight(step);
  if (by == By::kHouseholder) {
    const auto [q, r] = at::linalg_qr(y.mH(), "reduced");
    const auto diagonal = r.diagonal(0, -2, -1);
    // Q·diag(r/|r|) has the R factor diag(r/|r|)ᴴR, whose diagonal is |r|.
    const auto phase = at::where(diagonal == 0, at::ones_like(diagonal), diagonal / diagonal.abs());
    at::mul_out(x, q.mH(), phase.conj().unsqueeze(-1));
  } else {
    auto g = drift(y);
    detail::add_diagonal_(g, 1);
    const auto l = std::get<0>(at::linalg_cholesky_ex(g));        // YᴴY = LLᴴ
    x.copy_(at::linalg_solve_triangular(l, y, /*upper=*/false));  // L⁻¹y is (YL⁻ᴴ)ᴴ
  }
}

void Qr::visit(const GroupOptions::Visitor& visitor) {
  auto index = static_cast<int64_t>(by);
  visitor.integer("qr_by", index);
  TORCH_CHECK(index == 0 || index == 1, "stiefel: no way to the Q factor has the number ", index);
  by = static_cast<By>(index);
}

at::Tensor WenYin::operator()(const at::Tensor& point, const at::Tensor& tangent) const {
  return retract(*this, point, tangent);
}

void WenYin::descend_(const Descent& step) const {
  const auto e = drift(step.x);
  auto s = overlap(step.x, step.d);
  if (step.keep) {
    const auto sigma = project_(step, s);
    s = skew(s).baddbmm_(e, sigma, 1, -1);  // Xᴴ(D − XΣ) = Ω − EΣ
  }
  // XᴴX = I + E is not taken as I: the coefficient of X below carries lΣ, which nothing bounds, and what E is
  // ignored comes back multiplied by (1 + lΣ)², step after step.
  const int64_t p = s.size(1);
  auto whole = e.clone();
  detail::add_diagonal_(whole, 1);
  // With lD for D, so that the blocks of the system are alike in size and l is 1.
  s = s * step.rate;
  const auto t = gram(step.d).mul_(step.rate).mul_(step.rate);
  const auto xs = at::bmm(whole, s);                          // XᴴXS
  const auto xa = at::add(s, xs, -0.5);                       // XᴴA = S − ½XᴴXS
  const auto aa = t.baddbmm(s.mH(), s.sub(xs, 0.25), 1, -1);  // AᴴA = T − Sᴴ(S − ¼XᴴXS)

  // Y = X − U(I + ½VᴴU)⁻¹VᴴX with VᴴU = [[XᴴA, XᴴX], [−AᴴA, −AᴴX]], VᴴX = [XᴴX; −AᴴX]
  auto system = at::empty({s.size(0), 2 * p, 2 * p}, s.options());
  const auto block = [&](int64_t i, int64_t j) { return system.narrow(1, i * p, p).narrow(2, j * p, p); };
  block(0, 0).copy_(xa);
  block(0, 1).copy_(whole);
  block(1, 0).copy_(aa.neg());
  block(1, 1).copy_(xa.mH().neg());
  const auto right = system.narrow(2, p, p).clone();
  system.mul_(0.5);
  detail::add_diagonal_(system, 1);
  const auto z = std::get<0>(at::linalg_solve_ex(system, right));
  const auto z1 = z.narrow(1, 0, p);
  const auto z2 = z.narrow(1, p, p);

  // U[z₁; z₂] = Az₁ + Xz₂ = lDz₁ + X(z₂ − ½Sz₁)
  const auto f = at::baddbmm(z2, s, z1, 1, -0.5).neg_();
  detail::StepBatch{step.x, step.d, {}, {}}.advance_(step.x, f, step.d, z1 * step.rate.neg());
}

at::Tensor CayleyClosed::operator()(const at::Tensor& point, const at::Tensor& tangent) const {
  return retract(*this, point, tangent);
}

void CayleyClosed::descend_(const Descent& step) const {
  at::Tensor x = step.x;
  const auto s = overlap(x, step.d);
  auto w = detail::dense_generator(x, step.d, s);  // the normal part of D makes nothing of W
  if (step.keep) project_(step, s);
  w.mul_(step.rate * 0.5);
  // (I + (l/2)W)Y = (I − (l/2)W)X; in rows (WX)ᴴ = −xW.
  const auto right = at::baddbmm(x, x, w);
  // I + (l/2)W = (I − (l/2)W)ᴴ, which in row order is the matrix in LAPACK's column order.
  auto system = w.neg_();
  detail::add_diagonal_(system, 1);
  x.copy_(std::get<0>(at::linalg_solve_ex(system.mH(), right.mH())).mH());
}

at::Tensor CayleyExact::operator()(const at::Tensor& point, const at::Tensor& tangent) const {
  return retract(*this, point, tangent);
}

void CayleyExact::descend_(const Descent& step) const {
  CayleyOptions options;
  options.exact = true;
  // The step projects its direction in place.
  detail::StepBatch batch{step.x, step.keep ? step.d : step.d.clone(), {}, {}};
  detail::step_(batch, detail::StepSize{step.rate.reshape({-1}), {}}, options);
}

namespace detail {

at::Tensor tangent_step(const Descent& step) {
  const auto s = overlap(step.x, step.d);
  if (step.keep) {
    project_(step, s);
    return step.d * step.rate.neg();
  }
  return at::baddbmm(step.d, hermitian(s), step.x, 1, -1).mul_(step.rate.neg());
}

}  // namespace detail

}  // namespace stiefel
