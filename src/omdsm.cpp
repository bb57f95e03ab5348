#include <stiefel/manifold.h>
#include <stiefel/parametrizations.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "algebra.h"
#include "inverse_root.h"

namespace stiefel {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rounding in V_cV_cᴴ shows in KKᴴ magnified by its condition number. Beyond this a float group is computed
/// in double altogether.
constexpr double kWellConditioned = 100;

/// Groups of equal size, which run as one batch.
struct Batch {
  int64_t first_row;
  int64_t groups;
  int64_t size;

  /// These rows of a matrix (p, n) as (groups, size, n), sharing its memory.
  at::Tensor operator()(const at::Tensor& matrix) const {
    return matrix.narrow(0, first_row, groups * size).view({groups, size, matrix.size(1)});
  }
};

/// The groups as one batch for each size there is: one or two.
std::vector<Batch> batches(const std::vector<int64_t>& groups) {
  std::vector<Batch> result;
  int64_t row = 0;
  for (const auto size : groups) {
    if (result.empty() || result.back().size != size) result.push_back({row, 0, size});
    result.back().groups += 1;
    row += size;
  }
  return result;
}

/// A tensor shaped like a weight, as a matrix (c_out, rest) and back, read in the order of the memory of
/// `like`: centring and Gram matrices do not mind the order of the columns.
class OutputRows {
 public:
  explicit OutputRows(const at::Tensor& like)
      : view_(like), transposed_(like.size(0) > like.numel() / like.size(0)) {}

  at::Tensor operator()(const at::Tensor& t) const { return turn(view_(t)).squeeze(0); }

  /// Writes rows into t, where they do not share its memory already.
  void write(const at::Tensor& rows, const at::Tensor& t) const { view_.write(turn(rows.unsqueeze(0)), t); }

 private:
  /// MatrixView turns a weight with more outputs than inputs on its side; here rows stay rows.
  at::Tensor turn(const at::Tensor& m) const { return transposed_ ? m.transpose(1, 2) : m; }

  MatrixView view_;
  bool transposed_;
};

/// Takes the mean of each c_out slice off, in the layout of `t`.
at::Tensor center(const at::Tensor& t) {
  std::vector<int64_t> rest(t.dim() - 1);
  std::iota(rest.begin(), rest.end(), 1);
  return t - t.mean(rest, true);
}

at::Tensor to_double(const at::Tensor& t) { return t.to(t.is_complex() ? at::kComplexDouble : at::kDouble); }

/// The smallest and the largest eigenvalue of the group that is closest to losing its rank.
std::pair<double, double> extremes(const at::Tensor& values) {
  const auto smallest = values.select(1, 0);
  const auto largest = values.select(1, -1);
  const auto worst = (smallest / largest).argmin().item<int64_t>();
  return {smallest[worst].item<double>(), largest[worst].item<double>()};
}

/// (V_cV_cᴴ)^(−½) of a batch of centred groups, decomposed in double: a float decomposition is most of K's
/// error (‖KKᴴ − I‖ = 1e-5 instead of 2e-6 at 64×576). Throws where a group has no full rank, as far as
/// the proxy's own rounding `given` can tell.
detail::InverseRoot root_of_gram(const at::Tensor& centered, double given) {
  const auto sigma = to_double(detail::gram(centered));
  TORCH_CHECK(at::isfinite(sigma).all().item<bool>(),
              "stiefel: OMDSM's proxy holds values that are not finite, or whose squares overflow");
  auto result = detail::inverse_root(sigma);
  const auto [smallest, largest] = extremes(result.values);
  const double roundoff = detail::unit_roundoff(centered);
  const bool single = roundoff > 1e-10;
  if (single && smallest * kWellConditioned < largest) return root_of_gram(to_double(centered), given);
  const double noise = std::max(roundoff, given * given);  // eigenvalues are squares
  TORCH_CHECK(smallest > noise * static_cast<double>(centered.size(2)) * largest, "stiefel: a group of ",
              centered.size(1), " rows of OMDSM's proxy is rank-deficient once each row's mean is taken off ",
              "(eigenvalues of the Gram matrix from ", largest, " down to ", smallest,
              "); draw the proxy at random, or choose a smaller group_size");
  return {single ? result.root.to(centered.scalar_type()) : result.root, result.vectors, result.values};
}

class Omdsm : public torch::autograd::Function<Omdsm> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& proxy, int64_t group_size) {
    const auto centered = center(proxy);
    const OutputRows rows(centered);
    const auto v = rows(centered);
    auto result = at::empty_like(centered);
    const auto k = rows(result);
    variable_list saved{centered};
    for (const auto& batch : batches(omdsm_groups(v.size(0), v.size(1), group_size))) {
      const auto part = batch(v);
      const auto root = root_of_gram(part, detail::unit_roundoff(part));
      // Where the group had to go to double, P came in double and only K is rounded.
      batch(k).copy_(at::bmm(root.root, part.to(root.root.scalar_type())));
      saved.push_back(root.root.to(part.scalar_type()));
      saved.push_back(root.vectors.to(part.scalar_type()));
      saved.push_back(root.values.to(c10::toRealValueType(part.scalar_type())));
    }
    rows.write(k, result);
    ctx->save_for_backward(saved);
    ctx->saved_data["group_size"] = group_size;
    return result;
  }

  /// dP = dK V_cᴴ, dΣ from dP, dV_c = P dK + 2 dΣ V_c, dV = dV_c − mean of each row: three thin products.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "stiefel: omdsm can be differentiated once only");
    const auto saved = ctx->get_saved_variables();
    const OutputRows rows(saved[0]);
    const auto v = rows(saved[0]);
    const auto dk = rows(gradients[0]);
    auto result = at::empty_like(saved[0]);
    const auto dv = rows(result);
    size_t next = 1;
    for (const auto& batch :
         batches(omdsm_groups(v.size(0), v.size(1), ctx->saved_data["group_size"].toInt()))) {
      const auto part = batch(v);
      const auto d_part = batch(dk);
      const auto d_sigma =
          detail::inverse_root_backward(saved[next + 1], saved[next + 2], detail::overlap(d_part, part));
      auto out = batch(dv);
      at::bmm_out(out, saved[next], d_part);
      out.baddbmm_(d_sigma, part, 1, 2);
      next += 3;
    }
    rows.write(dv, result);
    return {center(result), {}};
  }
};

}  // namespace

void OmdsmOptions::validate() const {
  TORCH_CHECK(group_size >= 0, "stiefel: OMDSM's group_size must be 0 (as large as can be) or more; got ",
              group_size);
}

std::vector<int64_t> omdsm_groups(int64_t p, int64_t n, int64_t group_size) {
  OmdsmOptions{group_size}.validate();
  TORCH_CHECK(p >= 1, "stiefel: OMDSM needs a matrix with rows; got ", p, "×", n);
  TORCH_CHECK(n >= 2, "stiefel: OMDSM centres each row, which leaves nothing of rows with ", n,
              " entries; keep this weight as it is");
  const int64_t most = std::min(n - 1, group_size > 0 ? group_size : p);
  const int64_t count = (p + most - 1) / most;
  std::vector<int64_t> groups(count, p / count);
  for (int64_t i = 0; i < p % count; ++i) groups[i] += 1;
  return groups;
}

at::Tensor omdsm(const at::Tensor& proxy, const OmdsmOptions& options) {
  options.validate();
  return Omdsm::apply(proxy, options.group_size);
}

}  // namespace stiefel
