#include <ATen/core/grad_mode.h>
#include <stiefel/manifold.h>

#include <algorithm>
#include <numeric>

#include "algebra.h"

namespace stiefel {

namespace {

/// The type in which a defect is measured and a polar factor computed.
at::ScalarType wide(const at::Tensor& t) { return t.is_complex() ? at::kComplexDouble : at::kDouble; }

/// UVᴴ of a p×n matrix x = UΣVᴴ, p ≤ n: a QR decomposition brings the SVD down to p×p.
at::Tensor polar_factor(const at::Tensor& x, double roundoff) {
  // Asked before LAPACK sees it, which fails with a message of its own.
  TORCH_CHECK(
      at::isfinite(x).all().item<bool>(), "stiefel: a matrix of shape ", x.sizes().slice(1),
      " holds values that are not finite, so it cannot be made orthonormal; initialise it, for example "
      "with stiefel::init::haar_");
  const auto [q, r] = at::linalg_qr(x.mH());  // xᴴ = QR, x = RᴴQᴴ
  const auto [u, sigma, vh] = at::linalg_svd(r.mH(), false);
  const auto smallest = sigma.amin().item<double>();
  const auto largest = sigma.amax().item<double>();
  TORCH_CHECK(
      smallest > largest * roundoff * static_cast<double>(x.size(2)), "stiefel: a matrix of shape ",
      x.sizes().slice(1), " is rank-deficient (singular values from ", largest, " down to ", smallest,
      "), so there is no nearest orthonormal one; initialise it, for example with stiefel::init::haar_");
  return at::matmul(at::matmul(u, vh), q.mH());
}

}  // namespace

MatrixView::MatrixView(const at::Tensor& weight, bool batched) {
  TORCH_CHECK(weight.dim() >= 2,
              "stiefel: a weight on the manifold needs two or more dimensions; got the shape ",
              weight.sizes());
  TORCH_CHECK(weight.numel() > 0, "stiefel: a weight on the manifold has no elements; its shape is ",
              weight.sizes());
  const auto sizes = weight.sizes();
  order_.resize(weight.dim());
  std::iota(order_.begin(), order_.end(), 0);
  if (batched) {
    batch_shape_ = sizes.slice(0, weight.dim() - 2).vec();
    p_ = sizes[weight.dim() - 2];
  } else {
    p_ = sizes[0];
    // Read the rest in the order of memory, outermost first: ties and plain layouts keep their order.
    std::stable_sort(order_.begin() + 1, order_.end(),
                     [&](int64_t a, int64_t b) { return weight.stride(a) > weight.stride(b); });
  }
  batch_ = std::accumulate(batch_shape_.begin(), batch_shape_.end(), int64_t{1}, std::multiplies<>());
  n_ = weight.numel() / (p_ * batch_);
  transposed_ = p_ > n_;
  trivial_ = weight.dim() == 2 && !transposed_;
  if (transposed_) std::swap(p_, n_);
}

at::Tensor MatrixView::operator()(const at::Tensor& t) const {
  // A lazily conjugated tensor is a recipe, not memory to work in.
  const auto plain = t.resolve_conj().resolve_neg();
  if (trivial_) return plain.unsqueeze(0);
  const int64_t first = transposed_ ? n_ : p_;
  const int64_t second = transposed_ ? p_ : n_;
  const auto matrices = plain.permute(order_).reshape({batch_, first, second});
  return transposed_ ? matrices.transpose(1, 2) : matrices;
}

void MatrixView::write(const at::Tensor& matrices, const at::Tensor& t) const {
  if (matrices.is_alias_of(t)) return;
  const auto home = t.permute(order_);
  home.copy_((transposed_ ? matrices.transpose(1, 2) : matrices).reshape(home.sizes()));
}

at::Tensor defect(const at::Tensor& weight, bool batched) {
  const at::NoGradGuard no_grad;
  const MatrixView view(weight, batched);
  const auto x = view(weight.detach()).to(wide(weight));
  return detail::frobenius(detail::drift(x)).view(view.batch_shape());
}

at::Tensor orthonormalize_(const at::Tensor& weight, bool batched) {
  const at::NoGradGuard no_grad;
  const MatrixView view(weight, batched);
  const auto x = view(weight.detach());
  const double roundoff = detail::unit_roundoff(x);
  auto result = at::empty(x.sizes(), x.options().dtype(wide(weight)));
  for (int64_t i = 0; i < view.batch(); ++i) {
    result.narrow(0, i, 1).copy_(polar_factor(x.narrow(0, i, 1).to(wide(weight)), roundoff));
  }
  view.write(result.to(weight.scalar_type()), weight.detach());
  return weight;
}

at::Tensor project_tangent(const at::Tensor& weight, const at::Tensor& vector, bool batched) {
  TORCH_CHECK(weight.sizes() == vector.sizes(), "stiefel: the vector's shape ", vector.sizes(),
              " differs from the weight's ", weight.sizes());
  const at::NoGradGuard no_grad;
  const MatrixView view(weight, batched);
  const auto x = view(weight.detach());
  const auto z = view(vector.detach());
  const auto tangent = at::baddbmm(z, detail::hermitian(detail::overlap(x, z)), x, 1, -1);
  auto result = at::empty_like(vector);
  view.write(tangent, result);
  return result;
}

}  // namespace stiefel
