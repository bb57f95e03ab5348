#include <ATen/core/dispatch/Dispatcher.h>
#include <stiefel/cayley.h>
#include <stiefel/manifold.h>
#include <torch/library.h>

#include "batches.h"
#include "gradients.h"
#include "step.h"

// The steps as operators of the dispatcher, written on ATen for any device. The optimisers, and any other
// front end, call these; a device with kernels of its own registers them under the same names.

namespace stiefel {

namespace {

using detail::Batch;
using detail::Batches;
using detail::Gradients;
using detail::Pace;

void check_momenta(at::TensorList points, at::TensorList momenta) {
  TORCH_CHECK(momenta.size() == points.size(), "stiefel: ", points.size(), " points came with ",
              momenta.size(), " momenta");
}

CayleyOptions pack(double q, double eps, int64_t iterations, bool exact, c10::string_view norm, bool polish) {
  const CayleyOptions options{q, eps, iterations, exact, norm_from_string(std::string(norm)), polish};
  options.validate();
  return options;
}

void sgd_kernel(at::TensorList points, at::TensorList momenta, at::TensorList gradients, at::Tensor skipped,
                const at::Tensor& rate, double momentum, double q, double eps, int64_t iterations, bool exact,
                c10::string_view norm, bool polish) {
  const at::NoGradGuard no_grad;
  const auto options = pack(q, eps, iterations, exact, norm, polish);
  check_momenta(points, momenta);
  Batches(points, momenta, gradients).for_each([&](Batches::Slice& slice) {
    const Gradients gradient(slice.g, skipped);
    gradient.accumulate_(slice.m, slice.g, momentum, 1);  // M ← βM + G
    Batch batch{slice.x, slice.m, gradient.kept};
    detail::step_(batch, Pace{rate, {}}, options);
  });
}

void adam_kernel(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                 at::TensorList steps, at::TensorList gradients, at::Tensor skipped, const at::Tensor& rate,
                 double beta1, double beta2, double q, double eps, int64_t iterations, bool exact,
                 c10::string_view norm, bool polish) {
  const at::NoGradGuard no_grad;
  const auto options = pack(q, eps, iterations, exact, norm, polish);
  TORCH_CHECK(second_moments.size() == points.size() && steps.size() == points.size(),
              "stiefel: ", points.size(), " points came with ", second_moments.size(), " second moments and ",
              steps.size(), " step counts");
  check_momenta(points, momenta);
  Batches(points, momenta, gradients).for_each([&](Batches::Slice& slice) {
    const Gradients gradient(slice.g, skipped);
    gradient.accumulate_(slice.m, slice.g, beta1, 1 - beta1);  // M ← β₁M + (1 − β₁)G
    auto v = detail::gather_scalars(second_moments, slice.range);
    auto k = detail::gather_scalars(steps, slice.range);
    const auto next_v = v * beta2 + gradient.norm.square() * (1 - beta2);  // v ← β₂v + (1 − β₂)‖G‖²_F
    const auto next_k = k + 1;
    v = gradient.kept.defined() ? at::where(gradient.kept, v, next_v) : next_v;
    k = gradient.kept.defined() ? at::where(gradient.kept, k, next_k) : next_k;
    // r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε), k counted from 1
    const auto counted = k.clamp_min(1);
    const auto unbiased = v / (1 - at::pow(beta2, counted));
    const auto r = (1 - at::pow(beta1, counted)) * (unbiased + options.eps).sqrt();
    Batch batch{slice.x, slice.m, gradient.kept};
    detail::step_(batch, Pace{rate, r}, options);
    detail::scatter_scalars(second_moments, slice.range, v);
    detail::scatter_scalars(steps, slice.range, k);
  });
}

}  // namespace

TORCH_LIBRARY(stiefel, library) {
  library.def(
      "cayley_sgd_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor[] gradients, Tensor(c!) skipped, "
      "Tensor rate, float momentum, float q=0.5, float eps=1e-8, int iterations=2, bool exact=False, "
      "str norm='frobenius', bool polish=True) -> ()");
  library.def(
      "cayley_adam_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor(c!)[] second_moments, "
      "Tensor(d!)[] steps, Tensor[] gradients, Tensor(e!) skipped, Tensor rate, float beta1=0.9, "
      "float beta2=0.99, float q=0.5, float eps=1e-8, int iterations=2, bool exact=False, "
      "str norm='frobenius', bool polish=True) -> ()");
  library.def("defect(Tensor weight, bool batched=False) -> Tensor");
  library.def("orthonormalize_(Tensor(a!) weight, bool batched=False) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(stiefel, CompositeExplicitAutograd, library) {
  library.impl("cayley_sgd_", sgd_kernel);
  library.impl("cayley_adam_", adam_kernel);
  library.impl("defect", [](const at::Tensor& weight, bool batched) { return defect(weight, batched); });
  library.impl("orthonormalize_",
               [](at::Tensor weight, bool batched) { return orthonormalize_(weight, batched); });
}

namespace {

template <class Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

void cayley_sgd_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                 const at::Tensor& skipped, const at::Tensor& rate, double momentum,
                 const CayleyOptions& options) {
  static const auto step = find_operator<decltype(sgd_kernel)>("stiefel::cayley_sgd_");
  step.call(points, momenta, gradients, skipped, rate, momentum, options.q, options.eps, options.iterations,
            options.exact, to_string(options.norm), options.polish);
}

void cayley_adam_(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                  at::TensorList steps, at::TensorList gradients, const at::Tensor& skipped,
                  const at::Tensor& rate, double beta1, double beta2, const CayleyOptions& options) {
  static const auto step = find_operator<decltype(adam_kernel)>("stiefel::cayley_adam_");
  step.call(points, momenta, second_moments, steps, gradients, skipped, rate, beta1, beta2, options.q,
            options.eps, options.iterations, options.exact, to_string(options.norm), options.polish);
}

}  // namespace stiefel
