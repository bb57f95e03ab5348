#include "algebra.h"
#include "generator_norm.h"
#include "step.h"

// The paper's iteration to the letter: no correction, whatever X has drifted to. Written with the n×n matrix
// W where p is close to n, and with p×p coefficients of X and M where the matrix is thin.

namespace stiefel::detail {

namespace {

/// Whether the dense form takes fewer operations, counted in units of 2np² (a product of p×p by p×n).
bool dense_is_cheaper(int64_t p, int64_t n, int64_t rounds) {
  const double slimness = static_cast<double>(n) / static_cast<double>(p);
  const double dense = 2 + (2 + rounds) * slimness;
  const double coefficients = 7 + (5 * rounds + 4) / slimness;
  return dense < coefficients;
}

/// What rounding leaves of ‖W‖_F where M is normal: ‖W‖²_F is then a difference of terms like tr T.
at::Tensor rounding_in_norm(const at::Tensor& t) {
  return real_trace(t).mul_(8 * unit_roundoff(t)).clamp_min_(0).sqrt_();
}

/// X and M as the matrices A, B of XA + MB, or of M(I + E) − X(Σ + ΩE).
void write_(StepBatch& batch, at::Tensor xx, at::Tensor xm, at::Tensor mx, at::Tensor mm) {
  // Each comes as its difference from "stay": X ← X + X·xx + M·xm, M ← M + X·mx + M·mm.
  auto dx = at::bmm(batch.hold_(xx).mH(), batch.x).baddbmm_(batch.hold_(xm).mH(), batch.m);
  auto dm = at::bmm(batch.hold_(mx).mH(), batch.x).baddbmm_(batch.hold_(mm).mH(), batch.m);
  batch.x.add_(dx);
  batch.m.add_(dm);
}

void coefficient_form_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options) {
  const auto e = drift(batch.x);
  const auto s = overlap(batch.x, batch.m);
  const auto t = gram(batch.m);
  const auto omega = skew(s);
  const auto norm =
      at::maximum(literal_norm(batch.x, batch.m, e, s, t, options.exact ? Norm::kFrobenius : options.norm),
                  rounding_in_norm(t));
  const auto tau = spread(step_size.signed_step(norm, largest_exact_turn(batch.x), options), batch.x);
  const auto half = tau * 0.5;

  // WX = M(I + E) − X(Σ + ΩE)
  const auto drop = at::baddbmm(hermitian(s), omega, e);
  if (options.exact) {
    // With K = [[−Q, −(T + ΩS)], [I + E, S]], Q = Sᴴ + Ω(I + E): W[X M] = [X M]K, and
    // Y = X + [X M](I − (τ/2)K)⁻¹ τK[I; 0].
    const auto side_by_side = [](const at::Tensor& l, const at::Tensor& r) {
      return at::cat(std::vector{l, r}, 2);
    };
    const auto q = at::baddbmm(omega + s.mH(), omega, e);
    auto grown = e.clone();
    add_diagonal_(grown, 1);
    const auto k =
        at::cat(std::vector{side_by_side(q, at::baddbmm(t, omega, s)).neg_(), side_by_side(grown, s)}, 1);
    auto system = k * half.neg();
    add_diagonal_(system, 1);
    const int64_t p = s.size(1);
    const auto moved = std::get<0>(at::linalg_solve_ex(system, k.narrow(2, 0, p) * tau));
    return write_(batch, moved.narrow(1, 0, p).clone(), moved.narrow(1, p, p).clone(), drop.neg(), e.clone());
  }
  // Y = X + XA + MB with A = −τ(Σ + ΩE), B = τ(I + E) to begin with; then
  // Y ← X + (τ/2)W(2X + XA + MB), where W(XA + MB) = MZ − X(SᴴA + TB + ΩZ), Z = (I + E)A + SB.
  auto a = drop * tau.neg();
  auto b = e * tau;
  add_diagonal_(b, tau);
  for (int64_t i = 0; i < options.iterations; ++i) {
    add_diagonal_(a, 2);
    const auto z = at::baddbmm(at::baddbmm(a, s, b), e, a);
    const auto back = at::bmm(s.mH(), a).baddbmm_(t, b).baddbmm_(omega, z);
    a = back * half.neg();
    b = z * half;
  }
  write_(batch, a, b, drop.neg(), e.clone());
}

void dense_form_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options) {
  auto& x = batch.x;
  auto& m = batch.m;
  auto w = dense_generator(x, m, overlap(x, m));
  const auto norm = dense_norm(w, options.exact ? Norm::kFrobenius : options.norm);
  auto tau = spread(step_size.signed_step(norm, largest_exact_turn(x), options), x);
  batch.hold_(tau);

  // M ← WX, as rows −xW.
  if (batch.frozen.defined()) {
    m.copy_(at::where(batch.frozen.view({-1, 1, 1}), m, at::bmm(x, w).neg_()));
  } else {
    m.baddbmm_(x, w, 0, -1);
  }
  const auto whole = m * tau;  // τWX
  w.mul_(tau * 0.5);
  if (options.exact) {
    auto system = w.neg_();
    add_diagonal_(system, 1);
    const auto tall = std::get<0>(at::linalg_solve_ex(system, whole.mH()));  // (I − (τ/2)W)⁻¹ τWX
    x.add_(tall.mH());
    return;
  }
  // Y − X ← τWX + (τ/2)W(Y − X), from τWX.
  auto move = whole;
  for (int64_t i = 0; i < options.iterations; ++i) move = at::baddbmm(whole, move, w, 1, -1);
  x.add_(move);
}

}  // namespace

void literal_step_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options) {
  if (dense_is_cheaper(batch.x.size(1), batch.x.size(2), options.exact ? 2 : options.iterations)) {
    dense_form_(batch, step_size, options);
  } else {
    coefficient_form_(batch, step_size, options);
  }
}

}  // namespace stiefel::detail
