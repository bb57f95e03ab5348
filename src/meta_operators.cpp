#include <ATen/ATen.h>
#include <stiefel/parametrizations.h>
#include <torch/library.h>
#include <torch/version.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "find_ranks.h"
#include "step_matrices.h"

// The operators on the meta device, where a tensor has a shape and a type and no memory: what torch.compile
// traces with. A step checks its arguments and returns; the others return a tensor of the right shape. Where
// torch.compile traces for all shapes, sizes are symbols, so that nothing here may ask for their values.

namespace stiefel {

namespace {

/// What MatrixView reads from a weight's shape, with sizes that may be symbols.
struct SymbolicView {
  std::vector<c10::SymInt> batch_shape;
  c10::SymInt p = 1, n = 1;

  explicit SymbolicView(const at::Tensor& weight, bool batched = false) {
    TORCH_CHECK(weight.dim() >= 2,
                "stiefel: a weight on the manifold needs two or more dimensions; got the shape ",
                weight.sym_sizes());
    TORCH_CHECK(weight.sym_numel() > 0, "stiefel: a weight on the manifold has no elements; its shape is ",
                weight.sym_sizes());
    const auto sizes = weight.sym_sizes();
    if (batched) {
      batch_shape = sizes.slice(0, sizes.size() - 2).vec();
      p = sizes[sizes.size() - 2];
      n = sizes.back();
    } else {
      p = sizes[0];
      for (const auto& size : sizes.slice(1)) n = n * size;
    }
    if (p > n) std::swap(p, n);
  }
};

/// What every step checks, as far as it can without memory.
void check_meta_step(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                     const at::Tensor& rate, const at::Tensor& skipped,
                     const c10::optional<at::Tensor>& off_manifold, bool batched) {
  detail::check_step_tensors(points, momenta, gradients);
  if (points.empty()) return;
  detail::check_scalars(rate, {skipped, off_manifold.value_or(at::Tensor())}, points[0].device());
  for (const auto& point : points) SymbolicView(point, batched);
}

void meta_sgd(at::TensorList points, at::TensorList momenta, at::TensorList gradients, at::Tensor skipped,
              const at::Tensor& rate, double, double, double, int64_t, bool, c10::string_view, bool,
              c10::string_view, bool batched, const c10::optional<at::Tensor>& off_manifold, c10::string_view,
              int64_t, at::IntArrayRef) {
  detail::check_momenta(points, momenta);
  check_meta_step(points, momenta, gradients, rate, skipped, off_manifold, batched);
}

void meta_adam(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
               at::TensorList steps, at::TensorList gradients, at::Tensor skipped, const at::Tensor& rate,
               double, double, double, double, int64_t, bool, c10::string_view, bool, c10::string_view,
               bool batched, const c10::optional<at::Tensor>& off_manifold, c10::string_view, int64_t,
               at::IntArrayRef) {
  detail::check_momenta(points, momenta);
  check_meta_step(points, momenta, gradients, rate, skipped, off_manifold, batched);
  TORCH_CHECK(second_moments.size() == points.size() && steps.size() == points.size(),
              "stiefel: ", points.size(), " points came with ", second_moments.size(), " second moments and ",
              steps.size(), " step counts");
}

void meta_muon(at::TensorList points, at::TensorList momenta, at::TensorList gradients, at::Tensor skipped,
               const at::Tensor& rate, double, bool, int64_t, bool, c10::string_view, int64_t, bool,
               c10::string_view, bool batched, const c10::optional<at::Tensor>& off_manifold,
               c10::string_view, int64_t, at::IntArrayRef) {
  detail::check_momenta(points, momenta);
  check_meta_step(points, momenta, gradients, rate, skipped, off_manifold, batched);
}

void meta_retraction_sgd(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                         at::Tensor skipped, const at::Tensor& rate, double momentum, c10::string_view,
                         int64_t, bool batched, const c10::optional<at::Tensor>& off_manifold) {
  if (momentum != 0) detail::check_momenta(points, momenta);
  check_meta_step(points, momenta, gradients, rate, skipped, off_manifold, batched);
}

at::Tensor meta_defect(const at::Tensor& weight, bool batched) {
  return at::empty_symint(SymbolicView(weight, batched).batch_shape, weight.options().dtype(at::kDouble));
}

/// The result of an operator that maps two tensors of one shape to a third.
at::Tensor meta_like(const at::Tensor& a, const at::Tensor& b, const at::Tensor& like, bool batched) {
  TORCH_CHECK(a.sym_sizes() == b.sym_sizes(), "stiefel: two tensors of one shape are needed; got ",
              a.sym_sizes(), " and ", b.sym_sizes());
  SymbolicView(a, batched);
  return at::empty_like(like);
}

at::Tensor meta_project_tangent(const at::Tensor& weight, const at::Tensor& vector, bool batched) {
  return meta_like(weight, vector, vector, batched);
}

at::Tensor meta_cayley_retraction(const at::Tensor& point, const at::Tensor& direction, double, double,
                                  int64_t, bool, c10::string_view, bool, bool batched) {
  return meta_like(point, direction, point, batched);
}

at::Tensor meta_polar_direction(const at::Tensor& weight, int64_t, bool, bool batched) {
  return meta_like(weight, weight, weight, batched);
}

at::Tensor meta_in_place(at::Tensor weight, bool batched) {
  SymbolicView(weight, batched);
  return weight;
}

at::Tensor meta_random_in_place(at::Tensor weight, bool batched, const c10::optional<at::Generator>&) {
  return meta_in_place(std::move(weight), batched);
}

at::Tensor meta_penalty(at::TensorList weights, c10::string_view, int64_t, bool batched,
                        const c10::optional<at::Generator>&) {
  TORCH_CHECK(!weights.empty(), "stiefel: a penalty needs at least one weight; the list is empty");
  for (const auto& weight : weights) SymbolicView(weight, batched);
  const bool is_double = std::any_of(weights.begin(), weights.end(), [](const at::Tensor& weight) {
    return c10::toRealValueType(weight.scalar_type()) == at::kDouble;
  });
  return at::empty({}, weights[0].options().dtype(is_double ? at::kDouble : at::kFloat));
}

at::Tensor meta_weight(const at::Tensor& proxy, c10::string_view, const c10::optional<at::Tensor>&, int64_t) {
  return at::empty_symint(proxy.sym_sizes(), proxy.options(), proxy.suggest_memory_format());
}

void meta_sum_over_ranks(at::Tensor, c10::string_view) {}

at::Tensor meta_gather_over_ranks(const at::Tensor& tensor, c10::string_view ranks) {
  auto shape = tensor.sym_sizes().vec();
  shape.insert(shape.begin(), detail::find_ranks(std::string(ranks)).size());
  return at::empty_symint(shape, tensor.options());
}

/// A rank's part of a weight may be empty.
at::Tensor meta_sharded_defect(const at::Tensor& weight, c10::string_view, int64_t, bool batched) {
  auto shape = weight.sym_sizes().vec();
  TORCH_CHECK(shape.size() >= 2,
              "stiefel: a weight on the manifold needs two or more dimensions; got the shape ",
              weight.sym_sizes());
  shape.resize(batched ? shape.size() - 2 : 0);
  return at::empty_symint(shape, weight.options().dtype(at::kDouble));
}

at::Tensor meta_sharded_orthonormalize(at::Tensor weight, c10::string_view, int64_t, bool) { return weight; }

std::tuple<at::Tensor, at::Tensor> meta_start(const at::Tensor& weight, c10::string_view parametrization) {
  const SymbolicView view(weight);
  std::vector<c10::SymInt> base;
  switch (parametrization_from_string(std::string(parametrization))) {
    case Parametrization::kOmdsm:
      base = {0};
      break;
    case Parametrization::kHouseholder:
      base = {view.p};
      break;
    case Parametrization::kMatrixExp:
    case Parametrization::kCayley:
      base = {view.n, view.n};
      break;
  }
  return {at::empty_symint(weight.sym_sizes(), weight.options(), weight.suggest_memory_format()),
          at::empty_symint(base, weight.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(stiefel, Meta, library) {
  library.impl("cayley_sgd_", meta_sgd);
  library.impl("cayley_adam_", meta_adam);
  library.impl("cayley_muon_", meta_muon);
  library.impl("retraction_sgd_", meta_retraction_sgd);
  library.impl("polar_direction", meta_polar_direction);
  library.impl("defect", meta_defect);
  library.impl("orthonormalize_", meta_in_place);
  library.impl("project_tangent", meta_project_tangent);
  library.impl("cayley_retraction", meta_cayley_retraction);
  library.impl("haar_", meta_random_in_place);
  library.impl("identity_", meta_in_place);
  library.impl("hadamard_", meta_in_place);
  library.impl("block_rotation_", meta_random_in_place);
  library.impl("penalty", meta_penalty);
  library.impl("orthonormal_weight", meta_weight);
  library.impl("parametrized_start", meta_start);
  library.impl("sum_over_ranks_", meta_sum_over_ranks);
  library.impl("gather_over_ranks", meta_gather_over_ranks);
  library.impl("sharded_defect", meta_sharded_defect);
  library.impl("sharded_orthonormalize_", meta_sharded_orthonormalize);
}

#if TORCH_VERSION_MAJOR < 2
// LibTorch 1.13 has no way past autograd for tensors on the meta device; later ones have.
TORCH_LIBRARY_IMPL(stiefel, AutogradMeta, library) {
  for (const auto* name :
       {"cayley_sgd_", "cayley_adam_", "cayley_muon_", "polar_direction", "retraction_sgd_", "defect",
        "orthonormalize_", "project_tangent", "cayley_retraction", "haar_", "identity_", "hadamard_",
        "block_rotation_", "parametrized_start", "sum_over_ranks_", "gather_over_ranks", "sharded_defect",
        "sharded_orthonormalize_"}) {
    library.impl(name, torch::CppFunction::makeFallthrough());
  }
}
#endif

}  // namespace stiefel
