#include "polished_step.h"

#include <cmath>
#include <utility>

#include "algebra.h"
#include "exit_correction.h"
#include "generator_norm.h"
#include "gram_root.h"
#include "visible_drift.h"

// The step of the coefficient form. X is n×p with p < n; E, S, T, Ω, R, F and C are p×p.

namespace stiefel::detail {

namespace {

/// What is known of the tangent momentum.
struct Tangent {
  at::Tensor omega;  // Ω = XᴴM, skew
  at::Tensor t;      // MᴴM without the normal part
  at::Tensor z;      // what rounding left of the normal part; undefined where nobody looked
};

/// S − ½ES: XᴴM as if X were X(I − ½E), which is orthonormal to second order.
at::Tensor corrected(const at::Tensor& s, const at::Tensor& e) { return at::baddbmm(s, e, s, 1, -0.5); }

/// Ω and T by a second look at the projected momentum, S = XᴴM, and the normal part Z that it finds.
Tangent look_again(const at::Tensor& overlap, const at::Tensor& e, at::Tensor t) {
  const auto s = corrected(overlap, e);
  const auto z = hermitian(s);
  const auto zs = at::bmm(z, s);
  t.sub_(zs).sub_(zs.mH()).baddbmm_(z, z);  // T − ZS − (ZS)ᴴ + Z²
  return {skew(s), t, z};
}

// ‖Z‖²_F against tr T from which M is projected again.
constexpr double kLargeNormalPart = 0.01;

struct Coefficients {
  at::Tensor f;
  at::Tensor c;
};

/// (F, C) ← (−(τ/2)RC, τI + (τ/2)(ΩC + F)), s times from (0, τI).
Coefficients iterate(const at::Tensor& omega, const at::Tensor& r, const at::Tensor& tau, int64_t rounds) {
  const auto half = tau * 0.5;
  Coefficients now{at::zeros_like(r), at::zeros_like(r)};
  add_diagonal_(now.c, tau);
  for (int64_t i = 0; i < rounds; ++i) {
    // The first C is τI, so its products are scalings.
    const auto rc = i == 0 ? r * tau : at::bmm(r, now.c);
    auto c = i == 0 ? omega * tau : at::baddbmm(now.f, omega, now.c);
    c.mul_(half);
    add_diagonal_(c, tau);
    now = {rc * half.neg(), c};
  }
  return now;
}

/// The fixed point of the loop: C = τ(I − (τ/2)Ω + (τ²/4)R)⁻¹, F = −(τ/2)RC. The matrix has the Hermitian
/// part I + (τ²/4)R, so it is never singular.
Coefficients solve(const at::Tensor& omega, const at::Tensor& r, const at::Tensor& tau) {
  auto system = (r * tau).mul_(tau * 0.25);
  system.sub_(omega * (tau * 0.5));
  add_diagonal_(system, 1);
  const auto c = std::get<0>(at::linalg_inv_ex(system)) * tau;
  return {at::bmm(r, c).mul_(tau * -0.5), c};
}

/// A bound on ‖V‖_F, one number per matrix. For s = 1, 2, V is ±(τ⁴/4)XᴴW⁴X to leading order, positive, so
/// its trace bounds it: (τ⁴/4)(‖Ω² − R‖²_F − Re tr RΩ²), with Ω² − R = −T. Every factor takes its τ² first: T
/// is the square of a length, and its own square overflows from a length of 1e10 on.
at::Tensor defect_bound(const at::Tensor& t, const at::Tensor& r, const at::Tensor& omega2,
                        const at::Tensor& tau, const at::Tensor& norm, int64_t rounds) {
  if (rounds == 1 || rounds == 2) {
    const auto square = spread(tau.square(), t);
    return frobenius(t * square).square_().sub_(real_trace(r * square, omega2 * square)).mul_(0.25);
  }
  return (tau * norm * 0.5).abs_().pow_(2 * ((rounds + 1) / 2) + 2).mul_(4);
}

/// Makes the truncated iterate the polar factor of itself: with D = F + ΩC,
/// V = YᴴY − I = D + Dᴴ + DᴴD + CᴴRC and P = (I + V)^(−½) − I, F ← F + P + FP and C ← C + CP.
void correct_exit_(Coefficients& now, const at::Tensor& omega, const at::Tensor& r, int64_t pairs,
                   const CayleyOptions& options) {
  const auto d = at::baddbmm(now.f, omega, now.c);
  auto v = at::baddbmm(d, d.mH(), d);
  v.add_(d.mH()).baddbmm_(now.c.mH(), at::bmm(r, now.c));
  const auto p = exit_correction(v, pairs, options);
  now.f = at::baddbmm(now.f, now.f, p).add_(p);
  now.c = at::baddbmm(now.c, now.c, p);
}

}  // namespace

PolishedStep::PolishedStep(StepBatch& batch, at::Tensor e, const StepSize& step_size,
                           const CayleyOptions& options, const PolarOptions* polar)
    : batch_(batch),
      step_size_(step_size),
      options_(options),
      polar_(polar),
      x_(batch.source()),
      e_(std::move(e)),
      policy_(x_, e_, step_size.reach(x_.size(0))) {}

void PolishedStep::project(at::Tensor s) {
  // By how much K or 1/r will multiply S is not known yet.
  const bool entry = wants_unit() || policy_.entry_shows(s);
  if (entry) s = corrected(s, e_);
  sigma_ = hermitian(s);

  // M ← M − X(Σ − ½EΣ): the projection. This is the momentum that is kept.
  auto normal = entry ? at::baddbmm(sigma_, sigma_, e_, 1, -0.5) : sigma_.clone();
  batch_.m.baddbmm_(batch_.hold_(normal), x_, 1, -1);
  s_ = std::move(s);
  m_ = batch_.m;
}

bool PolishedStep::wants_unit() const { return polar_ != nullptr || step_size_.wants_units(options_); }

void PolishedStep::take_unit(const at::Tensor& largest) {
  unit_.emplace(batch_.m, largest);
  m_ = unit_->m;
  // D is as long in any unit.
  if (polar_ == nullptr && unit_->unit.defined()) step_size_ = step_size_.in_units(unit_->unit);
}

bool PolishedStep::wants_second_look(const at::Tensor& t) {
  sigma_length_ = unit_                ? unit_->normal_length(sigma_)
                  : policy_.may_look() ? frobenius(sigma_)
                                       : at::Tensor();
  // MK is longer than M by ‖K‖ ≤ gain/√‖T‖.
  if (polar_ != nullptr) {
    const auto length = frobenius(t).sqrt_();
    return policy_.second_look((sigma_length_ * root_gain(*polar_, t) / length).masked_fill_(length == 0, 0));
  }
  return policy_.second_look(unit_ && unit_->unit.defined() ? sigma_length_ / unit_->unit : sigma_length_);
}

bool PolishedStep::wants_another_projection(const at::Tensor& t, const at::Tensor& second) const {
  if (!policy_.may_look()) return false;
  return (frobenius(hermitian(second)).square_() > kLargeNormalPart * real_trace(t)).any().item<bool>();
}

void PolishedStep::project_again(const at::Tensor& second) {
  const auto z = hermitian(corrected(second, e_));
  auto normal = at::baddbmm(z, z, e_, 1, -0.5);  // M ← M − X(Z − ½EZ)
  batch_.hold_(normal);
  m_.baddbmm_(normal, x_, 1, -1);
  if (unit_ && unit_->unit.defined()) {  // m() is a copy
    batch_.m.baddbmm_(normal * spread(unit_->unit.reciprocal(), normal), x_, 1, -1);
  }
}

void PolishedStep::move(const at::Tensor& t, const at::Tensor& second) {
  const auto now = second.defined() ? look_again(second, e_, t)
                                    : Tangent{unit_ ? unit_->in_units(skew(s_)) : skew(s_), t, {}};
  const auto omega2 = commuting_product(now.omega, now.omega);
  const auto r = now.t + omega2;

  std::optional<PolarDirection> direction;
  if (polar_ != nullptr) {
    direction.emplace(now.omega, now.t, r, negligible_gram(sigma_length_, x_), *polar_);
  }
  const auto& omega_d = direction ? direction->omega : now.omega;
  const auto& r_d = direction ? direction->r : r;
  const auto norm =
      direction ? polar_norm_bound(*polar_, x_)
                : tangent_norm(x_, m_, now.omega, now.t, options_.exact ? Norm::kFrobenius : options_.norm);

  const double exact_turn = direction ? kLargestPolarTurn : largest_exact_turn(x_);
  const auto tau = step_size_.signed_step(norm, exact_turn, options_);
  const auto step = spread(tau, x_);
  auto move = options_.exact ? solve(omega_d, r_d, step) : iterate(omega_d, r_d, step, options_.iterations);
  if (!options_.exact) {
    // Without a bound: two pairs leave 3e-7 at the cap, where ‖V‖ ≤ 1/16 for real matrices under the
    // Frobenius norm; three leave 4e-6 where it can reach 3/16.
    const bool tame = !x_.is_complex() && options_.norm == Norm::kFrobenius && !direction;
    at::Tensor bound;
    if (policy_.may_look()) {
      bound = direction ? polar_defect_bound(tau, norm, x_.size(1), options_.iterations)
                        : defect_bound(now.t, r, omega2, tau, norm, options_.iterations);
    }
    const int64_t pairs = policy_.series_pairs(bound, unseen_pairs(options_, tame));
    if (pairs > 0) correct_exit_(move, omega_d, r_d, pairs, options_);
  }
  if (direction) {
    // XF + DC = X(F − NC) + M(KC)
    move.f.baddbmm_(direction->n, move.c, 1, -1);
    move.c = at::bmm(direction->k, move.c);
  }
  if (now.z.defined()) move.f.baddbmm_(now.z, move.c, 1, -1);  // F ← F − ZC
  const auto length = direction ? norm * std::sqrt(static_cast<double>(x_.size(1))) : norm;
  if (policy_.drift_shows(tau, length)) move.f.baddbmm_(e_, move.f.clone(), 1, -0.5);
  move.f.sub_(e_, 0.5);  // F ← F − ½(E + EF)
  batch_.advance_(x_, batch_.hold_(move.f), m_, batch_.hold_(move.c));
}

void polished_step_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options,
                    const PolarOptions* polar) {
  PolishedStep step(batch, batch.e.defined() ? batch.e : visible_drift(batch.source()), step_size, options,
                    polar);
  step.project(overlap(step.x(), batch.m));
  if (step.wants_unit()) step.take_unit(entry_norm(batch.m));
  auto t = gram(step.m());
  at::Tensor second;
  if (step.wants_second_look(t)) {
    second = overlap(step.x(), step.m());
    if (step.wants_another_projection(t, second)) {
      step.project_again(second);
      t = gram(step.m());
      second = overlap(step.x(), step.m());
    }
  }
  step.move(t, second);
}

}  // namespace stiefel::detail
