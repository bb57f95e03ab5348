#include <ATen/core/grad_mode.h>
#include <stiefel/manifold.h>
#include <stiefel/parametrizations.h>

#include <vector>

#include "names.h"

namespace stiefel {

namespace {

constexpr detail::Names<Parametrization, 4> kParametrizations{{
    {Parametrization::kOmdsm, "omdsm"},
    {Parametrization::kMatrixExp, "matrix-exp"},
    {Parametrization::kCayley, "cayley"},
    {Parametrization::kHouseholder, "householder"},
}};

/// Whether c_out is the smaller side, so that the tall matrix is the transposed one.
bool wide(const at::Tensor& weight) { return weight.size(0) <= weight.numel() / weight.size(0); }

/// A weight (c_out, …) as a tall n×p matrix. The transpose is plain, not the adjoint, as in PyTorch:
/// orthonormal columns stay orthonormal rows either way.
at::Tensor tall(const at::Tensor& weight) {
  TORCH_CHECK(weight.dim() >= 2 && weight.numel() > 0,
              "stiefel: an orthonormal weight needs two or more dimensions and elements; got the shape ",
              weight.sizes());
  const auto matrix = weight.reshape({weight.size(0), -1});
  return wide(weight) ? matrix.t() : matrix;
}

/// The inverse of tall, laid out in memory as `like` is. A convolution then pays for no conversion.
at::Tensor untall(const at::Tensor& q, const at::Tensor& like) {
  const auto weight = (wide(like) ? q.t() : q).reshape(like.sizes());
  return like.dim() == 4 ? weight.contiguous(like.suggest_memory_format()) : weight;
}

/// S = L − Lᴴ, n×n, with L the lower part of A (n×p). The diagonal cancels where A is real; where it is
/// complex, its imaginary part turns the phases.
at::Tensor skew_matrix(const at::Tensor& a) {
  const int64_t n = a.size(0);
  const auto lower = at::constant_pad_nd(a.tril(), {0, n - a.size(1)});
  return lower - lower.mH();
}

/// (I − ½S)⁻¹(I + ½S)[:, :p]: one n×n solve with p right-hand sides.
at::Tensor cayley_columns(const at::Tensor& s, int64_t p) {
  const auto identity = at::eye(s.size(0), s.options());
  return at::linalg_solve(identity - 0.5 * s, (identity + 0.5 * s).narrow(1, 0, p));
}

/// The first p columns of H₁…H_p.
at::Tensor reflections(const at::Tensor& a) {
  const auto v = a.tril(-1);  // the one on the diagonal is implied
  const auto squares = v.is_complex() ? at::real(v).square() + at::imag(v).square() : v.square();
  const auto tau = 2 / (1 + squares.sum(0));
  return at::linalg_householder_product(v, tau.to(v.scalar_type()));
}

void check_base(const at::Tensor& base, const at::Tensor& a, Parametrization parametrization) {
  if (!base.defined()) return;
  const bool phases = parametrization == Parametrization::kHouseholder;
  const int64_t n = a.size(0);
  const auto expected = phases ? std::vector<int64_t>{a.size(1)} : std::vector<int64_t>{n, n};
  TORCH_CHECK(base.sizes() == at::IntArrayRef(expected), "stiefel: the base of a ",
              to_string(parametrization), " weight of ", n, "×", a.size(1), " has the shape ",
              at::IntArrayRef(expected), "; got ", base.sizes());
}

/// Reflections that bring an orthonormal X (n×p) to diag(b): column j of the result holds vⱼ below the
/// diagonal, and X = (H₁…H_p)[:, :p] diag(b). Each vⱼ = x + e^{iθ}‖x‖eⱼ, θ the phase of x's first entry, over
/// its first entry, which is never small. Hⱼ is Hermitian for complex X too, unlike LAPACK's.
ParametrizedStart reflect(at::Tensor x) {
  const int64_t n = x.size(0);
  const int64_t p = x.size(1);
  auto proxy = at::zeros_like(x);
  auto phases = at::empty({p}, x.options());
  for (int64_t j = 0; j < p; ++j) {
    auto rest = x.narrow(0, j, n - j).narrow(1, j, p - j);
    const auto column = rest.select(1, 0).clone();
    const auto head = column[0].clone();
    const auto phase = head.abs().item<double>() > 0 ? head / head.abs() : at::ones_like(head);
    const auto target = -phase * at::linalg_vector_norm(column);
    column.select(0, 0).sub_(target);
    const auto v = (column / column[0].clone()).unsqueeze(1);
    const auto tau = 2 / at::linalg_vector_norm(v).square();
    rest.sub_(tau * v.mm(v.mH().mm(rest)));
    proxy.narrow(0, j + 1, n - j - 1).select(1, j).copy_(v.squeeze(1).narrow(0, 1, n - j - 1));
    phases.select(0, j).copy_(-phase);
  }
  return {proxy, phases};
}

/// An n×n orthonormal matrix whose first columns are X: the complete QR decomposition has some, with phases
/// of its own in the first p.
at::Tensor complete(const at::Tensor& x) {
  auto base = std::get<0>(at::linalg_qr(x, "complete"));
  base.narrow(1, 0, x.size(1)).copy_(x);
  return base;
}

}  // namespace

std::string to_string(Parametrization parametrization) {
  return detail::name_of(kParametrizations, parametrization, "parametrisation");
}

Parametrization parametrization_from_string(const std::string& name) {
  return detail::value_of(kParametrizations, name, "parametrisation");
}

at::Tensor orthonormal_weight(const at::Tensor& proxy, Parametrization parametrization,
                              const at::Tensor& base, const OmdsmOptions& options) {
  if (parametrization == Parametrization::kOmdsm) {
    TORCH_CHECK(!base.defined(), "stiefel: OMDSM takes no base");
    return omdsm(proxy, options);
  }
  const auto a = tall(proxy);
  const int64_t p = a.size(1);
  check_base(base, a, parametrization);
  if (parametrization == Parametrization::kHouseholder) {
    const auto q = reflections(a);
    return untall(base.defined() ? q * base : -q, proxy);
  }
  const auto s = skew_matrix(a);
  const auto q =
      parametrization == Parametrization::kCayley ? cayley_columns(s, p) : at::matrix_exp(s).narrow(1, 0, p);
  return untall(base.defined() ? base.mm(q) : q, proxy);
}

ParametrizedStart parametrized_start(const at::Tensor& weight, Parametrization parametrization) {
  const at::NoGradGuard no_grad;
  if (parametrization == Parametrization::kOmdsm) return {weight.detach().clone(), {}};
  const auto type = weight.is_complex() ? at::kComplexDouble : at::kDouble;
  const auto x = tall(weight.detach()).to(type);
  const double off = defect(weight).item<double>();
  TORCH_CHECK(off < 1e-3,
              "stiefel: a parametrised weight can only start at an orthonormal one; this one, of ", "shape ",
              weight.sizes(), ", has ‖XᴴX − I‖ = ", off,
              "; make it orthonormal first, for example with stiefel::orthonormalize_");
  auto start = parametrization == Parametrization::kHouseholder
                   ? reflect(x.clone())
                   : ParametrizedStart{at::zeros_like(x), complete(x)};
  start.base = start.base.to(weight.scalar_type());
  start.proxy = untall(start.proxy.to(weight.scalar_type()), weight);
  return start;
}

}  // namespace stiefel
