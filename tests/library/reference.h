#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <vector>

/// The paper's Algorithms 1 and 2 as they are printed, with the n×n matrix W, in double. It shares nothing
/// with the library: tall matrices X (n×p), the paper's own sign of the momentum, the polar factor by the
/// SVD.
///
/// Algorithm 2 is read with three repairs: k counts from 1, v starts at 0, and Y⁰ = X − αWX.
namespace reference {

using at::Tensor;

enum class Norm { kFrobenius, kOne, kSpectral };

struct Options {
  double rate = 0.1;
  double beta1 = 0.9;  ///< β of Cayley SGD
  double beta2 = 0.99;
  double q = 0.5;
  double eps = 1e-8;
  int64_t iterations = 2;
  bool exact = false;
  Norm norm = Norm::kFrobenius;
  bool polish = true;
};

/// One matrix with its state. `m` has the paper's sign under Cayley SGD (along the move) and the gradient's
/// under Cayley ADAM, as printed.
struct Point {
  Tensor x;
  Tensor m;
  double v = 0;
  int64_t k = 0;
  double turn = 0;      ///< α‖W‖_F of the last step
  bool capped = false;  ///< whether the norm held the last step back
  Tensor last_w;        ///< W of the last step

  explicit Point(const Tensor& start) : x(start.clone()), m(torch::zeros_like(start)) {}
};

inline Tensor generator(const Tensor& x, const Tensor& m) {
  const auto xh = x.mH();
  const auto half = m.mm(xh) - 0.5 * x.mm(xh.mm(m).mm(xh));
  return half - half.mH();
}

inline double norm_of(const Tensor& w, Norm norm) {
  if (norm == Norm::kOne) return w.abs().sum(0).max().item<double>();
  if (norm == Norm::kSpectral) return at::linalg_svdvals(w).max().item<double>();
  return w.abs().square().sum().sqrt().item<double>();
}

/// Y(α) = (I − α/2 W)⁻¹(I + α/2 W)X.
inline Tensor closed_form(const Tensor& x, const Tensor& w, double alpha) {
  const auto identity = torch::eye(x.size(0), x.options());
  return at::linalg_solve(identity - alpha / 2 * w, (identity + alpha / 2 * w).mm(x));
}

/// Y⁰ = X + αWX, Yⁱ = X + α/2 W(X + Yⁱ⁻¹), s times.
inline Tensor iterate(const Tensor& x, const Tensor& w, double alpha, int64_t rounds) {
  auto y = x + alpha * w.mm(x);
  for (int64_t i = 0; i < rounds; ++i) y = x + alpha / 2 * w.mm(x + y);
  return y;
}

/// The nearest orthonormal matrix.
inline Tensor polar(const Tensor& y) {
  const auto [u, s, vh] = at::linalg_svd(y, /*full_matrices=*/false);
  return u.mm(vh);
}

/// Moves x along W; `sign` is −1 where W was made from the gradient.
inline void move(Point& point, const Tensor& w, double sign, const Options& options) {
  const double cap = 2 * options.q / (norm_of(w, options.norm) + options.eps);
  point.capped = !options.exact && cap < options.rate;
  const double alpha = point.capped ? cap : options.rate;
  point.turn = alpha * norm_of(w, Norm::kFrobenius);
  point.last_w = sign * w;
  auto y = options.exact ? closed_form(point.x, w, sign * alpha)
                         : iterate(point.x, w, sign * alpha, options.iterations);
  point.x = options.polish ? polar(y) : y;
}

/// Algorithm 1.
inline void sgd_step(Point& point, const Tensor& g, const Options& options) {
  const auto m = options.beta1 * point.m - g;
  const auto w = generator(point.x, m);
  point.m = w.mm(point.x);
  move(point, w, 1, options);
}

/// Algorithm 2.
inline void adam_step(Point& point, const Tensor& g, const Options& options) {
  point.k += 1;
  const auto m = options.beta1 * point.m + (1 - options.beta1) * g;
  point.v = options.beta2 * point.v + (1 - options.beta2) * g.abs().square().sum().item<double>();
  const double v_hat = point.v / (1 - std::pow(options.beta2, point.k));
  const double r = (1 - std::pow(options.beta1, point.k)) * std::sqrt(v_hat + options.eps);
  const auto w = generator(point.x, m / r);
  point.m = r * w.mm(point.x);
  move(point, w, -1, options);
}

/// ‖XᴴX − I‖_F.
inline double defect(const Tensor& x) {
  return (x.mH().mm(x) - torch::eye(x.size(1), x.options())).abs().square().sum().sqrt().item<double>();
}

/// The matrices of a weight (c_out, …), or of a stack (…, p, n) of them, each tall: the adjoint of one that
/// is wide. Double or complex double.
inline std::vector<Tensor> tall(const Tensor& weight, bool batched) {
  const auto wide_type = weight.is_complex() ? at::kComplexDouble : at::kDouble;
  const auto w = weight.detach().to(wide_type);
  const auto stack = batched ? w.reshape({-1, w.size(-2), w.size(-1)}) : w.reshape({1, w.size(0), -1});
  std::vector<Tensor> all;
  for (const auto& one : stack.unbind(0)) {
    all.push_back((one.size(0) <= one.size(1) ? one.mH() : one).resolve_conj().clone());
  }
  return all;
}

/// A random weight whose matrices are orthonormal, by QR.
inline Tensor orthonormal_weight(at::IntArrayRef shape, bool batched, at::ScalarType type) {
  const auto noise = torch::randn(shape, type);
  const auto stack = batched ? noise : noise.reshape({noise.size(0), -1});
  const bool wide = stack.size(-2) <= stack.size(-1);
  const auto q = std::get<0>(at::linalg_qr(wide ? stack.mH() : stack));
  return (wide ? q.mH() : q).reshape(shape).resolve_conj().contiguous();
}

}  // namespace reference
