#include "operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <stiefel/cayley.h>
#include <stiefel/manifold.h>
#include <torch/library.h>

#include "algebra.h"
#include "batches.h"
#include "gradients.h"
#include "step.h"

// The steps as operators of the dispatcher, written on ATen for any device. The optimisers, and any other
// front end, call these; a device with kernels of its own registers them under the same names.

namespace stiefel {

namespace detail {

namespace {

/// E = XᴴX − I of a batch and which of its matrices are near enough to the manifold for a step to draw them
/// in. The paper's iteration to the letter needs neither.
struct Standing {
  at::Tensor e;
  at::Tensor near;

  Standing(const at::Tensor& x, const CayleyOptions& options) {
    if (!options.polish) return;
    e = drift(x);
    near = frobenius(e) <= kFarthestStart;  // false for NaN too
  }
};

}  // namespace

void cayley_sgd_any_(const StepMatrices& matrices, const StepCounters& counters, const at::Tensor& rate,
                     double momentum, const CayleyOptions& options) {
  for_each_batch(matrices, [&](Batches::Slice& slice, const std::vector<size_t>&) {
    const Standing standing(slice.x, options);
    const Gradients gradient(slice.g, standing.near, counters);
    gradient.accumulate_(slice.m, slice.g, momentum, 1);  // M ← βM + G
    Batch batch{slice.x, slice.m, gradient.kept, gradient.clean(standing.e)};
    step_(batch, Pace{rate, {}}, options);
  });
}

void cayley_adam_any_(const StepMatrices& matrices, at::TensorList second_moments, at::TensorList steps,
                      const StepCounters& counters, const at::Tensor& rate, double beta1, double beta2,
                      const CayleyOptions& options) {
  for_each_batch(matrices, [&](Batches::Slice& slice, const std::vector<size_t>& entries) {
    const Standing standing(slice.x, options);
    const Gradients gradient(slice.g, standing.near, counters);
    gradient.accumulate_(slice.m, slice.g, beta1, 1 - beta1);  // M ← β₁M + (1 − β₁)G
    const auto moments = pick(second_moments, entries);
    const auto counts = pick(steps, entries);
    auto v = gather_scalars(moments, slice.range);
    auto k = gather_scalars(counts, slice.range);
    const auto next_v = v * beta2 + gradient.norm.square() * (1 - beta2);  // v ← β₂v + (1 − β₂)‖G‖²_F
    const auto next_k = k + 1;
    v = gradient.kept.defined() ? at::where(gradient.kept, v, next_v) : next_v;
    k = gradient.kept.defined() ? at::where(gradient.kept, k, next_k) : next_k;
    // r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε), k counted from 1
    const auto counted = k.clamp_min(1);
    const auto unbiased = v / (1 - at::pow(beta2, counted));
    const auto r = (1 - at::pow(beta1, counted)) * (unbiased + options.eps).sqrt();
    Batch batch{slice.x, slice.m, gradient.kept, gradient.clean(standing.e)};
    step_(batch, Pace{rate, r}, options);
    scatter_scalars(moments, slice.range, v);
    scatter_scalars(counts, slice.range, k);
  });
}

void check_adam_numbers(at::TensorList second_moments, at::TensorList steps, const StepMatrices& matrices) {
  check_numbers(second_moments, "second moments", matrices);
  check_numbers(steps, "step counts", matrices);
  std::vector<at::Tensor> written(second_moments.begin(), second_moments.end());
  written.insert(written.end(), steps.begin(), steps.end());
  check_no_overlap(written);
}

CayleyOptions pack(double q, double eps, int64_t iterations, bool exact, c10::string_view norm, bool polish,
                   c10::string_view precision) {
  const CayleyOptions options{q,
                              eps,
                              iterations,
                              exact,
                              norm_from_string(std::string(norm)),
                              polish,
                              precision_from_string(std::string(precision))};
  options.validate();
  return options;
}

}  // namespace detail

namespace {

using detail::StepCounters;
using detail::StepMatrices;

void sgd_kernel(at::TensorList points, at::TensorList momenta, at::TensorList gradients, at::Tensor skipped,
                const at::Tensor& rate, double momentum, double q, double eps, int64_t iterations, bool exact,
                c10::string_view norm, bool polish, c10::string_view precision, bool batched,
                const c10::optional<at::Tensor>& off_manifold) {
  const auto options = detail::pack(q, eps, iterations, exact, norm, polish, precision);
  detail::check_momenta(points, momenta);
  detail::run_step(points, momenta, gradients, rate, {skipped, off_manifold.value_or(at::Tensor())}, batched,
                   [&](const StepMatrices& matrices, const StepCounters& counters) {
                     detail::cayley_sgd_any_(matrices, counters, rate, momentum, options);
                   });
}

void adam_kernel(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                 at::TensorList steps, at::TensorList gradients, at::Tensor skipped, const at::Tensor& rate,
                 double beta1, double beta2, double q, double eps, int64_t iterations, bool exact,
                 c10::string_view norm, bool polish, c10::string_view precision, bool batched,
                 const c10::optional<at::Tensor>& off_manifold) {
  const auto options = detail::pack(q, eps, iterations, exact, norm, polish, precision);
  detail::check_momenta(points, momenta);
  detail::run_step(points, momenta, gradients, rate, {skipped, off_manifold.value_or(at::Tensor())}, batched,
                   [&](const StepMatrices& matrices, const StepCounters& counters) {
                     detail::check_adam_numbers(second_moments, steps, matrices);
                     detail::cayley_adam_any_(matrices, second_moments, steps, counters, rate, beta1, beta2,
                                              options);
                   });
}

}  // namespace

TORCH_LIBRARY(stiefel, library) {
  library.def(
      "cayley_sgd_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor[] gradients, Tensor(c!) skipped, "
      "Tensor rate, float momentum, float q=0.5, float eps=1e-8, int iterations=2, bool exact=False, "
      "str norm='frobenius', bool polish=True, str precision='full', bool batched=False, "
      "Tensor(d!)? off_manifold=None) -> ()");
  library.def(
      "cayley_adam_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor(c!)[] second_moments, "
      "Tensor(d!)[] steps, Tensor[] gradients, Tensor(e!) skipped, Tensor rate, float beta1=0.9, "
      "float beta2=0.99, float q=0.5, float eps=1e-8, int iterations=2, bool exact=False, "
      "str norm='frobenius', bool polish=True, str precision='full', bool batched=False, "
      "Tensor(f!)? off_manifold=None) -> ()");
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

c10::optional<at::Tensor> if_defined(const at::Tensor& t) {
  return t.defined() ? c10::optional<at::Tensor>(t) : c10::optional<at::Tensor>();
}

}  // namespace

void cayley_sgd_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                 const at::Tensor& skipped, const at::Tensor& rate, double momentum,
                 const CayleyOptions& options, bool batched, const at::Tensor& off_manifold) {
  static const auto step = find_operator<decltype(sgd_kernel)>("stiefel::cayley_sgd_");
  step.call(points, momenta, gradients, skipped, rate, momentum, options.q, options.eps, options.iterations,
            options.exact, to_string(options.norm), options.polish, to_string(options.precision), batched,
            if_defined(off_manifold));
}

void cayley_adam_(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                  at::TensorList steps, at::TensorList gradients, const at::Tensor& skipped,
                  const at::Tensor& rate, double beta1, double beta2, const CayleyOptions& options,
                  bool batched, const at::Tensor& off_manifold) {
  static const auto step = find_operator<decltype(adam_kernel)>("stiefel::cayley_adam_");
  step.call(points, momenta, second_moments, steps, gradients, skipped, rate, beta1, beta2, options.q,
            options.eps, options.iterations, options.exact, to_string(options.norm), options.polish,
            to_string(options.precision), batched, if_defined(off_manifold));
}

}  // namespace stiefel
