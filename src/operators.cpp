#include <ATen/core/dispatch/Dispatcher.h>
#include <stiefel/cayley.h>
#include <stiefel/manifold.h>
#include <torch/library.h>

#include <algorithm>
#include <map>

#include "batches.h"
#include "gradients.h"
#include "operators.h"
#include "step.h"

// The steps as operators of the dispatcher, written on ATen for any device. The optimisers, and any other
// front end, call these; a device with kernels of its own registers them under the same names.

namespace stiefel {

namespace {

using detail::Batch;
using detail::Batches;
using detail::Gradients;
using detail::Pace;

/// Entries of a list that have one shape, in their order.
using Entries = std::vector<size_t>;

std::vector<Entries> by_shape(at::TensorList points) {
  std::map<std::vector<int64_t>, Entries> groups;
  for (size_t i = 0; i < points.size(); ++i) groups[points[i].sizes().vec()].push_back(i);
  std::vector<Entries> result;
  result.reserve(groups.size());
  for (auto& [shape, entries] : groups) result.push_back(std::move(entries));
  return result;
}

bool is_one_shape(at::TensorList points) {
  return std::all_of(points.begin(), points.end(),
                     [&](const at::Tensor& t) { return t.sizes() == points[0].sizes(); });
}

std::vector<at::Tensor> pick(at::TensorList list, const Entries& entries) {
  std::vector<at::Tensor> result;
  result.reserve(entries.size());
  for (const size_t i : entries) result.push_back(list[i]);
  return result;
}

}  // namespace

namespace detail {

void cayley_sgd_any_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                     const at::Tensor& skipped, const at::Tensor& rate, double momentum,
                     const CayleyOptions& options) {
  const at::NoGradGuard no_grad;
  check_lists(points, {{"momenta", momenta}, {"gradients", gradients}});
  if (!is_one_shape(points)) {
    for (const auto& entries : by_shape(points)) {
      cayley_sgd_any_(pick(points, entries), pick(momenta, entries), pick(gradients, entries), skipped, rate,
                      momentum, options);
    }
    return;
  }
  Batches(points, momenta, gradients).for_each([&](Batches::Slice& slice) {
    const Gradients gradient(slice.g, skipped);
    gradient.accumulate_(slice.m, slice.g, momentum, 1);  // M ← βM + G
    Batch batch{slice.x, slice.m, gradient.kept};
    detail::step_(batch, Pace{rate, {}}, options);
  });
}

void cayley_adam_any_(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                      at::TensorList steps, at::TensorList gradients, const at::Tensor& skipped,
                      const at::Tensor& rate, double beta1, double beta2, const CayleyOptions& options) {
  const at::NoGradGuard no_grad;
  check_lists(points, {{"momenta", momenta},
                       {"gradients", gradients},
                       {"second moments", second_moments},
                       {"step counts", steps}});
  if (!is_one_shape(points)) {
    for (const auto& entries : by_shape(points)) {
      cayley_adam_any_(pick(points, entries), pick(momenta, entries), pick(second_moments, entries),
                       pick(steps, entries), pick(gradients, entries), skipped, rate, beta1, beta2, options);
    }
    return;
  }
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

void check_lists(at::TensorList points,
                 std::initializer_list<std::pair<const char*, at::TensorList>> others) {
  for (const auto& [name, list] : others) {
    TORCH_CHECK(list.size() == points.size(), "stiefel: ", points.size(), " points came with ", list.size(),
                " ", name);
  }
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

void sgd_kernel(at::TensorList points, at::TensorList momenta, at::TensorList gradients, at::Tensor skipped,
                const at::Tensor& rate, double momentum, double q, double eps, int64_t iterations, bool exact,
                c10::string_view norm, bool polish, c10::string_view precision) {
  detail::cayley_sgd_any_(points, momenta, gradients, skipped, rate, momentum,
                          detail::pack(q, eps, iterations, exact, norm, polish, precision));
}

void adam_kernel(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                 at::TensorList steps, at::TensorList gradients, at::Tensor skipped, const at::Tensor& rate,
                 double beta1, double beta2, double q, double eps, int64_t iterations, bool exact,
                 c10::string_view norm, bool polish, c10::string_view precision) {
  detail::cayley_adam_any_(points, momenta, second_moments, steps, gradients, skipped, rate, beta1, beta2,
                           detail::pack(q, eps, iterations, exact, norm, polish, precision));
}

}  // namespace

TORCH_LIBRARY(stiefel, library) {
  library.def(
      "cayley_sgd_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor[] gradients, Tensor(c!) skipped, "
      "Tensor rate, float momentum, float q=0.5, float eps=1e-8, int iterations=2, bool exact=False, "
      "str norm='frobenius', bool polish=True, str precision='full') -> ()");
  library.def(
      "cayley_adam_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor(c!)[] second_moments, "
      "Tensor(d!)[] steps, Tensor[] gradients, Tensor(e!) skipped, Tensor rate, float beta1=0.9, "
      "float beta2=0.99, float q=0.5, float eps=1e-8, int iterations=2, bool exact=False, "
      "str norm='frobenius', bool polish=True, str precision='full') -> ()");
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
            options.exact, to_string(options.norm), options.polish, to_string(options.precision));
}

void cayley_adam_(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                  at::TensorList steps, at::TensorList gradients, const at::Tensor& skipped,
                  const at::Tensor& rate, double beta1, double beta2, const CayleyOptions& options) {
  static const auto step = find_operator<decltype(adam_kernel)>("stiefel::cayley_adam_");
  step.call(points, momenta, second_moments, steps, gradients, skipped, rate, beta1, beta2, options.q,
            options.eps, options.iterations, options.exact, to_string(options.norm), options.polish,
            to_string(options.precision));
}

}  // namespace stiefel
