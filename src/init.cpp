#include <ATen/core/grad_mode.h>
#include <stiefel/init.h>
#include <stiefel/manifold.h>

#include <cmath>

#include "compat.h"

namespace stiefel::init {

namespace {

/// Fills the weight with matrices (B, p, n) made in double by `make`.
template <class Make>
at::Tensor fill_(const at::Tensor& weight, bool batched, Make make) {
  const at::NoGradGuard no_grad;
  const MatrixView view(weight, batched);
  const auto target = weight.detach();
  const auto type = weight.is_complex() ? at::kComplexDouble : at::kDouble;
  const at::Tensor matrices = make(view, weight.options().dtype(type).requires_grad(false));
  const auto place = view(target);
  place.copy_(matrices);
  view.write(place, target);
  return weight;
}

void check_square(const MatrixView& view, const at::Tensor& weight, const char* name) {
  TORCH_CHECK(view.p() == view.n(), "stiefel: ", name, " makes square matrices; a weight of shape ",
              weight.sizes(), " is ", view.p(), "×", view.n());
}

}  // namespace

at::Tensor haar_(const at::Tensor& weight, bool batched, std::optional<at::Generator> generator) {
  return fill_(weight, batched, [&](const MatrixView& view, const at::TensorOptions& options) {
    const auto gaussian = at::randn({view.batch(), view.n(), view.p()}, aten_generator(generator), options);
    const auto [q, r] = at::linalg_qr(gaussian);
    // LAPACK fixes the signs of R's diagonal in its own way; with R's diagonal positive, Q is Haar.
    const auto diagonal = r.diagonal(0, -2, -1);
    const auto phase = diagonal / diagonal.abs().clamp_min(1e-300);
    return q.mul(phase.unsqueeze(-2)).mH();
  });
}

at::Tensor identity_(const at::Tensor& weight, bool batched) {
  return fill_(weight, batched, [&](const MatrixView& view, const at::TensorOptions& options) {
    return at::eye(view.p(), view.n(), options).expand({view.batch(), view.p(), view.n()});
  });
}

at::Tensor hadamard_(const at::Tensor& weight, bool batched) {
  return fill_(weight, batched, [&](const MatrixView& view, const at::TensorOptions& options) {
    check_square(view, weight, "hadamard_");
    const int64_t n = view.n();
    TORCH_CHECK((n & (n - 1)) == 0, "stiefel: hadamard_ needs a size that is a power of two; got ", n);
    auto h = at::ones({1, 1}, options);
    while (h.size(0) < n) {
      h = at::cat(std::vector{at::cat(std::vector{h, h}, 1), at::cat(std::vector{h, h.neg()}, 1)}, 0);
    }
    return (h / std::sqrt(static_cast<double>(n))).expand({view.batch(), n, n});
  });
}

at::Tensor block_rotation_(const at::Tensor& weight, bool batched, std::optional<at::Generator> generator) {
  return fill_(weight, batched, [&](const MatrixView& view, const at::TensorOptions& options) {
    check_square(view, weight, "block_rotation_");
    const int64_t n = view.n();
    const int64_t pairs = n / 2;
    const auto real = options.dtype(at::kDouble);
    const auto angle = at::rand({view.batch(), pairs}, aten_generator(generator), real).mul_(2 * M_PI);
    auto result = at::zeros({view.batch(), n, n}, options);
    const auto even = at::arange(0, 2 * pairs, 2, options.dtype(at::kLong));
    auto diagonal = at::ones({view.batch(), n}, real);
    diagonal.index_copy_(1, even, angle.cos()).index_copy_(1, even + 1, angle.cos());
    result.diagonal(0, 1, 2).copy_(diagonal);
    auto off = at::zeros({view.batch(), n - 1}, real);
    if (pairs > 0) off.index_copy_(1, even, angle.sin());
    result.diagonal(1, 1, 2).copy_(off);
    result.diagonal(-1, 1, 2).copy_(off.neg());
    return result;
  });
}

}  // namespace stiefel::init
