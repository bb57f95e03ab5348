#include "generator_norm.h"

#include <functional>

#include "algebra.h"

namespace stiefel::detail {

namespace {

// Enough that the estimate is within a few per cent for random spectra; the margin covers the rest. The
// start is fixed, so a resumed run repeats.
constexpr int64_t kPowerRounds = 16;
constexpr int64_t kPowerColumns = 4;
constexpr double kPowerMargin = 1.1;

at::Tensor one_norm(const at::Tensor& w) { return w.abs().sum(-2).amax(-1).to(at::kDouble); }

/// A fixed set of start vectors, (B, p, 4).
at::Tensor start_vectors(const at::Tensor& like) {
  const auto index = at::arange(1, like.size(1) * kPowerColumns + 1, like.options().dtype(at::kDouble));
  const auto values = (index.square() * 0.7390851).cos_().view({1, like.size(1), kPowerColumns});
  return values.to(like.scalar_type()).expand({like.size(0), -1, -1}).contiguous();
}

/// A vector XA + MB by its coefficients, four at a time.
struct Pair {
  at::Tensor a;
  at::Tensor b;
};

/// 1/length, or 1 where that is not a number to divide by.
at::Tensor unit_of(const at::Tensor& length) {
  const auto unit = length.reciprocal();
  return at::where(unit.isfinite().logical_and_(unit > 0), unit, at::ones({}, unit.options()));
}

using Apply = std::function<Pair(const Pair&)>;
using SquaredLength = std::function<at::Tensor(const Pair&)>;

/// The largest ‖Wy‖/‖y‖ met by power iteration, times the margin. W is normal, so each ratio is a lower bound
/// of ‖W‖₂ and they grow. `squared_length` must be the true length of XA + MB: in the plain length of the
/// coefficients W is not normal and the ratios mean nothing.
at::Tensor power_norm(Pair y, const Apply& apply, const SquaredLength& squared_length) {
  const auto tiny = std::numeric_limits<float>::min();
  at::Tensor ratio;
  for (int64_t i = 0; i < kPowerRounds; ++i) {
    const auto scale = squared_length(y).clamp_min(tiny).rsqrt().unsqueeze(1);
    y.a = y.a * scale;
    if (y.b.defined()) y.b = y.b * scale;
    y = apply(y);
    ratio = squared_length(y).clamp_min(0).sqrt().amax(-1);
  }
  return ratio.to(at::kDouble) * kPowerMargin;
}

/// Re aᴴb of each column, (B, columns).
at::Tensor column_product(const at::Tensor& a, const at::Tensor& b) {
  return a.is_complex() ? at::real(a.conj() * b).sum(1) : (a * b).sum(1);
}

/// W on XA + MB: M Z − X(SᴴA + TB + ΩZ) with Z = (I + E)A + SB, and its length by the Gram matrix of [X M].
/// With M in units of its length √(tr T): the products below hold its fourth power. Rounding can make T
/// smaller than SᴴS.
at::Tensor spectral_norm(const at::Tensor& e, const at::Tensor& momentum_s, const at::Tensor& momentum_t) {
  const auto unit = unit_of(at::maximum(real_trace(momentum_t).clamp_min_(0).sqrt_(), frobenius(momentum_s)));
  const auto scale = spread(unit, momentum_s);
  const auto s = momentum_s * scale;
  const auto t = momentum_t * scale * scale;
  const auto omega = skew(s);
  const auto z = [&](const Pair& y) { return at::baddbmm(at::baddbmm(y.a, s, y.b), e, y.a); };
  const auto apply = [&](const Pair& y) -> Pair {
    const auto mine = z(y);
    auto a = at::bmm(s.mH(), y.a).baddbmm_(t, y.b).baddbmm_(omega, mine);
    return {a.neg_(), mine};
  };
  // ‖XA + MB‖² = Re(Aᴴ((I + E)A + SB) + Bᴴ(SᴴA + TB))
  const auto squared_length = [&](const Pair& y) {
    return column_product(y.a, z(y)) + column_product(y.b, at::bmm(s.mH(), y.a).baddbmm_(t, y.b));
  };
  const auto a = start_vectors(s);
  return power_norm({a, at::zeros_like(a)}, apply, squared_length) / unit;
}

at::Tensor spectral_norm(const at::Tensor& momentum_w) {
  const auto unit = unit_of(frobenius(momentum_w));
  const auto w = momentum_w * spread(unit, momentum_w);
  const auto apply = [&](const Pair& y) -> Pair { return {at::bmm(w, y.a), {}}; };
  const auto squared_length = [](const Pair& y) { return column_product(y.a, y.a); };
  return power_norm({start_vectors(w), {}}, apply, squared_length) / unit;
}

/// The estimate, or ‖W‖_F where the power iteration fell into a null space: vectors XA + MB without a length.
at::Tensor or_bound(const at::Tensor& estimate, const at::Tensor& length) {
  return at::where(estimate.isfinite(), estimate, length);
}

}  // namespace

at::Tensor dense_generator(const at::Tensor& x, const at::Tensor& m, const at::Tensor& s) {
  // W = Ŵ − Ŵᴴ is the skew part of 2Ŵ = (2M − XS)Xᴴ, S = XᴴM.
  const auto left = at::baddbmm(m, s.mH(), x, 2, -1);
  return skew(at::bmm(left.mH(), x));
}

at::Tensor dense_norm(const at::Tensor& w, Norm norm) {
  switch (norm) {
    case Norm::kOne:
      return one_norm(w);
    case Norm::kSpectral:
      return spectral_norm(w);
    case Norm::kFrobenius:
      break;
  }
  return frobenius(w);
}

at::Tensor tangent_norm(const at::Tensor& x, const at::Tensor& m, const at::Tensor& omega,
                        const at::Tensor& t, Norm norm) {
  switch (norm) {
    case Norm::kOne:
      return one_norm(dense_generator(x, m, omega));
    case Norm::kSpectral:
    case Norm::kFrobenius:
      break;
  }
  // ‖W‖²_F = 2 tr T − ‖Ω‖²_F, which rounding can make negative where the gradient vanishes.
  const auto length = (2 * real_trace(t) - frobenius(omega).square()).clamp_min_(0).sqrt_();
  return norm == Norm::kSpectral ? or_bound(spectral_norm(at::zeros_like(omega), omega, t), length) : length;
}

at::Tensor square_norm(const at::Tensor& x, const at::Tensor& omega, Norm norm) {
  if (norm == Norm::kOne) return one_norm(at::bmm(x.mH(), at::bmm(omega, x)));
  return dense_norm(omega, norm);
}

at::Tensor literal_norm(const at::Tensor& x, const at::Tensor& m, const at::Tensor& e, const at::Tensor& s,
                        const at::Tensor& t, Norm norm) {
  switch (norm) {
    case Norm::kOne:
      return one_norm(dense_generator(x, m, s));
    case Norm::kSpectral:
    case Norm::kFrobenius:
      break;
  }
  // ‖W‖²_F = −tr W² = −tr Q² + 2 tr (T + ΩS)(I + E) − tr S², Q = Sᴴ + Ω(I + E).
  const auto omega = skew(s);
  const auto q = at::baddbmm(omega + s.mH(), omega, e);
  const auto ts = at::baddbmm(t, omega, s);
  const auto squared =
      2 * (real_trace(ts) + real_trace(e, ts)) - real_trace(q.mH(), q) - real_trace(s.mH(), s);
  const auto length = squared.clamp_min_(0).sqrt_();
  return norm == Norm::kSpectral ? or_bound(spectral_norm(e, s, t), length) : length;
}

}  // namespace stiefel::detail
