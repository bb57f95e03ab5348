#include "shard.h"

#include <ATen/core/grad_mode.h>
#include <stiefel/sharding.h>

#include <cmath>
#include <numeric>

#include "algebra.h"
#include "packed_sum.h"

namespace stiefel {

namespace detail {

ShardView::ShardView(const at::Tensor& weight, int64_t dim, bool batched) : transposed_(dim == 0) {
  TORCH_CHECK(dim == 0 || dim == 1, "stiefel: a matrix is divided along dimension 0 or 1; got ", dim);
  TORCH_CHECK(weight.dim() >= 2,
              "stiefel: a weight on the manifold needs two or more dimensions; got the shape ",
              weight.sizes());
  const auto sizes = weight.sizes();
  if (batched) {
    batch_shape_ = sizes.slice(0, sizes.size() - 2).vec();
    batch_ = std::accumulate(batch_shape_.begin(), batch_shape_.end(), int64_t{1}, std::multiplies<>());
    first_ = sizes[sizes.size() - 2];
    second_ = sizes.back();
  } else {
    first_ = sizes[0];
    for (const auto size : sizes.slice(1)) second_ *= size;
  }
  TORCH_CHECK(batch_ > 0 && p() > 0, "stiefel: a shard of shape ", sizes, " has no ",
              transposed_ ? "columns" : "rows", "; only dimension ", dim,
              " is divided, so the others must be whole");
}

at::Tensor ShardView::operator()(const at::Tensor& t) const {
  const auto rows = t.resolve_conj().resolve_neg().reshape({batch_, first_, second_});
  return transposed_ ? rows.transpose(1, 2) : rows;
}

void ShardView::write(const at::Tensor& rows, const at::Tensor& t) const {
  if (rows.is_alias_of(t)) return;
  t.copy_((transposed_ ? rows.transpose(1, 2) : rows).reshape(t.sizes()));
}

}  // namespace detail

int64_t shard_length(const at::Tensor& weight, int64_t dim, bool batched) {
  return detail::ShardView(weight, dim, batched).length();
}

namespace {

/// XᴴX of the whole matrices, in double.
at::Tensor whole_gram(const at::Tensor& rows, Ranks& ranks) {
  const auto x = rows.to(rows.is_complex() ? at::kComplexDouble : at::kDouble);
  auto gram = detail::gram(x);
  detail::PackedSum sum;
  sum.add_hermitian(gram);
  sum.run(ranks);
  return gram;
}

}  // namespace

at::Tensor sharded_defect(const at::Tensor& weight, Ranks& ranks, int64_t dim, bool batched) {
  const at::NoGradGuard no_grad;
  const detail::ShardView view(weight, dim, batched);
  auto e = whole_gram(view(weight.detach()), ranks);
  detail::add_diagonal_(e, -1);
  return detail::frobenius(e).view(view.batch_shape());
}

at::Tensor sharded_orthonormalize_(const at::Tensor& weight, Ranks& ranks, int64_t dim, bool batched) {
  const at::NoGradGuard no_grad;
  const detail::ShardView view(weight, dim, batched);
  const auto x = view(weight.detach());
  const double roundoff = detail::unit_roundoff(x);
  auto moved = x.to(x.is_complex() ? at::kComplexDouble : at::kDouble);
  // Squaring loses half of the digits of small singular values; from near 1, where the first round leaves
  // them, the second loses none.
  for (int round = 0; round < 2; ++round) {
    const auto gram = whole_gram(moved, ranks);
    TORCH_CHECK(at::isfinite(gram).all().item<bool>(), "stiefel: a sharded matrix with ", view.p(),
                " short rows holds values that are not finite, so it cannot be made orthonormal");
    const auto [values, vectors] = at::linalg_eigh(gram);
    const auto largest = std::sqrt(values.amax().item<double>());
    const auto smallest = std::sqrt(std::max(0.0, values.amin().item<double>()));
    // Below the square root of double's roundoff a singular value's square is noise.
    TORCH_CHECK(
        smallest > largest * std::max(1e-7, roundoff * static_cast<double>(view.p())),
        "stiefel: a sharded matrix with ", view.p(), " short rows is rank-deficient (singular values from ",
        largest, " down to ", smallest,
        "), so there is no nearest orthonormal one; initialise it, for example with stiefel::init::haar_ "
        "before it is divided");
    const auto root = at::bmm(vectors * values.rsqrt().unsqueeze(1), vectors.mH());
    moved = at::bmm(root, moved);
  }
  view.write(moved.to(x.scalar_type()), weight.detach());
  return weight;
}

}  // namespace stiefel
