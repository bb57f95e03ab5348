#include "operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <stiefel/cayley.h>
#include <stiefel/manifold.h>
#include <torch/library.h>

#include <cmath>
#include <optional>

#include "algebra.h"
#include "device.h"
#include "find_ranks.h"
#include "gradients.h"
#include "sharded_step.h"
#include "step.h"
#include "step_batches.h"
#include "visible_drift.h"

// The steps as operators of the dispatcher, for any device. The optimisers, and any other front end, call
// these.

namespace stiefel {

namespace detail {

namespace {

/// E = XᴴX − I of a batch and which of its matrices are near enough to the manifold for a step to draw them
/// in. The paper's iteration to the letter needs neither.
struct ManifoldCheck {
  at::Tensor e;
  at::Tensor near;

  ManifoldCheck(const at::Tensor& x, const CayleyOptions& options) {
    if (!options.polish) return;
    e = visible_drift(x);
    near = frobenius(e) <= kFarthestStart;  // false for NaN too
  }
};

}  // namespace

void AdamNumbers::check(const std::vector<int64_t>& counts, const at::Device& device) const {
  check_numbers(second_moments, "second moments", counts, device);
  check_numbers(steps, "step counts", counts, device);
  std::vector<at::Tensor> written(second_moments.begin(), second_moments.end());
  written.insert(written.end(), steps.begin(), steps.end());
  check_no_overlap(written);
}

at::Tensor advance_(const AdamNumbers& adam, const BatchRange& range, const Gradients& gradient, double eps) {
  auto v = gather_scalars(adam.second_moments, range);
  auto k = gather_scalars(adam.steps, range);
  const auto next_v = v * adam.beta2 + gradient.norm.square() * (1 - adam.beta2);
  const auto next_k = k + 1;
  v = gradient.frozen.defined() ? at::where(gradient.frozen, v, next_v) : next_v;
  k = gradient.frozen.defined() ? at::where(gradient.frozen, k, next_k) : next_k;
  scatter_scalars(adam.second_moments, range, v);
  scatter_scalars(adam.steps, range, k);
  // r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε), k counted from 1
  const auto counted = k.clamp_min(1);
  const auto unbiased = v / (1 - at::pow(adam.beta2, counted));
  const auto r = (1 - at::pow(adam.beta1, counted)) * (unbiased + eps).sqrt();
  // Zero only with ε = 0 and gradients of zero: M is zero too, and M/r must not be NaN.
  return r.masked_fill(r == 0, 1);
}

at::Tensor scaled_rate(const at::Tensor& rate, const MuonTerms& terms, int64_t n) {
  if (terms.scale == MuonScale::kNone) return rate;
  return rate.to(at::kDouble) * (0.2 * std::sqrt(static_cast<double>(n)));
}

namespace {

/// Nesterov's direction G + βM: M is projected and kept here, and the step projects what it is given.
at::Tensor look_ahead(const StepSlice& slice, const Gradients& gradient, double momentum) {
  const auto x = gradient.clean(slice.x);
  slice.m.baddbmm_(hermitian(overlap(x, slice.m)), x, 1, -1);
  return gradient.clean(slice.g).add(slice.m, momentum);
}

/// What a slice was before a step of the paper's iteration to the letter: without corrections X drifts, and
/// may leave the range of its numbers.
class Before {
 public:
  Before(const StepSlice& slice, const AdamNumbers* adam)
      : x_(slice.x.clone()), m_(slice.m.clone()), adam_(adam) {
    if (adam_ == nullptr) return;
    v_ = gather_scalars(adam_->second_moments, slice.range).clone();
    k_ = gather_scalars(adam_->steps, slice.range).clone();
  }

  /// Brings back and counts the matrices of which ‖X‖ or ‖M‖ is not finite.
  void restore_(StepSlice& slice, const at::Tensor& frozen, const StepCounters& counters) const {
    auto lost = (frobenius(slice.x) + frobenius(slice.m)).isfinite().logical_not_();
    if (frozen.defined()) lost.logical_and_(frozen.logical_not());  // it may hold anything, and is counted
    if (lost.device().is_cpu() && !lost.any().item<bool>()) return;
    count_skipped(lost, counters);
    const auto matrices = lost.view({-1, 1, 1});
    slice.x.copy_(at::where(matrices, x_, slice.x));
    slice.m.copy_(at::where(matrices, m_, slice.m));
    if (adam_ == nullptr) return;
    const auto& range = slice.range;
    scatter_scalars(adam_->second_moments, range,
                    at::where(lost, v_, gather_scalars(adam_->second_moments, range)));
    scatter_scalars(adam_->steps, range, at::where(lost, k_, gather_scalars(adam_->steps, range)));
  }

 private:
  at::Tensor x_, m_, v_, k_;
  const AdamNumbers* adam_;
};

}  // namespace

void step_by_operators(const StepMatrices& matrices, const StepCounters& counters, const at::Tensor& rate,
                       const UpdateRule& rule, const CayleyOptions& options) {
  for_each_batch(matrices, [&](StepSlice& slice) {
    const ManifoldCheck check(slice.x, options);
    const Gradients gradient(slice.g, check.near, counters);
    std::optional<Before> before;
    if (!options.polish) before.emplace(slice, rule.adam);
    gradient.accumulate_(slice.m, slice.g, rule.decay, rule.gain);  // M ← decay·M + gain·G
    const auto r = rule.adam ? advance_(*rule.adam, slice.range, gradient, options.eps) : at::Tensor();
    const bool ahead = rule.muon && rule.muon->nesterov;
    StepBatch batch{slice.x, ahead ? look_ahead(slice, gradient, rule.decay) : slice.m, gradient.frozen,
                    gradient.clean(check.e)};
    const auto l = rule.muon ? scaled_rate(rate, *rule.muon, slice.x.size(2)) : rate;
    step_(batch, StepSize{l, r}, options, rule.muon ? &rule.muon->polar : nullptr);
    if (before) before->restore_(slice, gradient.frozen, counters);
  });
}

}  // namespace detail

namespace {

using detail::AdamNumbers;
using detail::StepCounters;
using detail::StepMatrices;
using detail::UpdateRule;

/// An operator's arguments as options, checked. Enumerations cross the dispatcher by name, as schemas have no
/// other type for them; finding a name again takes nanoseconds, a step many microseconds.
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

/// How an operator is told of a Sharding: the ranks by name, none where it is empty.
struct Division {
  std::string ranks;
  int64_t dim;
  at::IntArrayRef lengths;
};

/// A step of any operator: by our kernels where they can, else by ATen's operators.
void step(at::TensorList points, at::TensorList momenta, at::TensorList gradients, const at::Tensor& rate,
          const StepCounters& counters, bool batched, const UpdateRule& rule, const CayleyOptions& options,
          const Division& division) {
  detail::check_momenta(points, momenta);
  if (!division.ranks.empty()) {
    // The caller keeps the ranks while the step runs.
    const std::shared_ptr<Ranks> ranks(&detail::find_ranks(division.ranks), [](Ranks*) {});
    return detail::sharded_step(points, momenta, gradients, rate, counters, batched, rule, options,
                                {ranks, division.dim, division.lengths.vec()});
  }
  detail::run_step(points, momenta, gradients, rate, counters, batched,
                   [&](const StepMatrices& matrices, const StepCounters& counting) {
                     if (rule.adam) rule.adam->check(matrices.counts(), matrices.points[0].device());
                     if (!detail::step_by_kernels(matrices, counting, rate, rule, options)) {
                       detail::step_by_operators(matrices, counting, rate, rule, options);
                     }
                   });
}

void sgd_kernel(at::TensorList points, at::TensorList momenta, at::TensorList gradients, at::Tensor skipped,
                const at::Tensor& rate, double momentum, double q, double eps, int64_t iterations, bool exact,
                c10::string_view norm, bool polish, c10::string_view precision, bool batched,
                const c10::optional<at::Tensor>& off_manifold, c10::string_view ranks, int64_t shard_dim,
                at::IntArrayRef lengths) {
  step(points, momenta, gradients, rate, {skipped, off_manifold.value_or(at::Tensor())}, batched,
       {momentum, 1}, pack(q, eps, iterations, exact, norm, polish, precision),
       {std::string(ranks), shard_dim, lengths});
}

void adam_kernel(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                 at::TensorList steps, at::TensorList gradients, at::Tensor skipped, const at::Tensor& rate,
                 double beta1, double beta2, double q, double eps, int64_t iterations, bool exact,
                 c10::string_view norm, bool polish, c10::string_view precision, bool batched,
                 const c10::optional<at::Tensor>& off_manifold, c10::string_view ranks, int64_t shard_dim,
                 at::IntArrayRef lengths) {
  const AdamNumbers numbers{second_moments, steps, beta1, beta2};
  step(points, momenta, gradients, rate, {skipped, off_manifold.value_or(at::Tensor())}, batched,
       {beta1, 1 - beta1, &numbers}, pack(q, eps, iterations, exact, norm, polish, precision),
       {std::string(ranks), shard_dim, lengths});
}

void muon_kernel(at::TensorList points, at::TensorList momenta, at::TensorList gradients, at::Tensor skipped,
                 const at::Tensor& rate, double momentum, bool nesterov, int64_t rounds, bool exact_root,
                 c10::string_view scale, int64_t iterations, bool exact, c10::string_view precision,
                 bool batched, const c10::optional<at::Tensor>& off_manifold, c10::string_view ranks,
                 int64_t shard_dim, at::IntArrayRef lengths) {
  const MuonTerms terms{momentum, nesterov, {rounds, exact_root}, muon_scale_from_string(std::string(scale))};
  terms.validate();
  const CayleyOptions defaults;
  step(points, momenta, gradients, rate, {skipped, off_manifold.value_or(at::Tensor())}, batched,
       {momentum, 1, nullptr, &terms},
       pack(defaults.q, defaults.eps, iterations, exact, to_string(defaults.norm), true, precision),
       {std::string(ranks), shard_dim, lengths});
}

}  // namespace

TORCH_LIBRARY(stiefel, library) {
  library.def(
      "cayley_sgd_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor[] gradients, Tensor(c!) skipped, "
      "Tensor rate, float momentum, float q=0.5, float eps=1e-8, int iterations=2, bool exact=False, "
      "str norm='frobenius', bool polish=True, str precision='full', bool batched=False, "
      "Tensor(d!)? off_manifold=None, str ranks='', int shard_dim=1, int[] lengths=[]) -> ()");
  library.def(
      "cayley_adam_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor(c!)[] second_moments, "
      "Tensor(d!)[] steps, Tensor[] gradients, Tensor(e!) skipped, Tensor rate, float beta1=0.9, "
      "float beta2=0.99, float q=0.5, float eps=1e-8, int iterations=2, bool exact=False, "
      "str norm='frobenius', bool polish=True, str precision='full', bool batched=False, "
      "Tensor(f!)? off_manifold=None, str ranks='', int shard_dim=1, int[] lengths=[]) -> ()");
  library.def(
      "cayley_muon_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor[] gradients, Tensor(c!) skipped, "
      "Tensor rate, float momentum=0.9, bool nesterov=False, int rounds=2, bool exact_root=False, "
      "str scale='none', int iterations=2, bool exact=False, str precision='full', bool batched=False, "
      "Tensor(d!)? off_manifold=None, str ranks='', int shard_dim=1, int[] lengths=[]) -> ()");
  library.def(
      "polar_direction(Tensor weight, int rounds=2, bool exact_root=False, bool batched=False) -> Tensor");
  library.def("defect(Tensor weight, bool batched=False) -> Tensor");
  library.def("orthonormalize_(Tensor(a!) weight, bool batched=False) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(stiefel, CompositeExplicitAutograd, library) {
  library.impl("cayley_sgd_", sgd_kernel);
  library.impl("cayley_adam_", adam_kernel);
  library.impl("cayley_muon_", muon_kernel);
  library.impl("polar_direction",
               [](const at::Tensor& weight, int64_t rounds, bool exact_root, bool batched) {
                 return polar_direction(weight, {rounds, exact_root}, batched);
               });
  library.impl("defect", [](const at::Tensor& weight, bool batched) { return defect(weight, batched); });
  library.impl("orthonormalize_",
               [](at::Tensor weight, bool batched) { return orthonormalize_(weight, batched); });
}

namespace {

template <class Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

std::string name_of(const Sharding& sharding) { return sharding ? sharding.ranks->name() : std::string(); }

c10::optional<at::Tensor> if_defined(const at::Tensor& t) {
  return t.defined() ? c10::optional<at::Tensor>(t) : c10::optional<at::Tensor>();
}

}  // namespace

void cayley_sgd_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                 const at::Tensor& skipped, const at::Tensor& rate, double momentum,
                 const CayleyOptions& options, bool batched, const at::Tensor& off_manifold,
                 const Sharding& sharding) {
  static const auto operation = find_operator<decltype(sgd_kernel)>("stiefel::cayley_sgd_");
  operation.call(points, momenta, gradients, skipped, rate, momentum, options.q, options.eps,
                 options.iterations, options.exact, to_string(options.norm), options.polish,
                 to_string(options.precision), batched, if_defined(off_manifold), name_of(sharding),
                 sharding.dim, sharding.lengths);
}

void cayley_adam_(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                  at::TensorList steps, at::TensorList gradients, const at::Tensor& skipped,
                  const at::Tensor& rate, double beta1, double beta2, const CayleyOptions& options,
                  bool batched, const at::Tensor& off_manifold, const Sharding& sharding) {
  static const auto operation = find_operator<decltype(adam_kernel)>("stiefel::cayley_adam_");
  operation.call(points, momenta, second_moments, steps, gradients, skipped, rate, beta1, beta2, options.q,
                 options.eps, options.iterations, options.exact, to_string(options.norm), options.polish,
                 to_string(options.precision), batched, if_defined(off_manifold), name_of(sharding),
                 sharding.dim, sharding.lengths);
}

void cayley_muon_(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                  const at::Tensor& skipped, const at::Tensor& rate, const MuonTerms& terms,
                  const CayleyOptions& options, bool batched, const at::Tensor& off_manifold,
                  const Sharding& sharding) {
  TORCH_CHECK(options.polish, "stiefel: polish is false; a step along a polar factor needs its corrections");
  static const auto operation = find_operator<decltype(muon_kernel)>("stiefel::cayley_muon_");
  operation.call(points, momenta, gradients, skipped, rate, terms.momentum, terms.nesterov,
                 terms.polar.rounds, terms.polar.exact_root, to_string(terms.scale), options.iterations,
                 options.exact, to_string(options.precision), batched, if_defined(off_manifold),
                 name_of(sharding), sharding.dim, sharding.lengths);
}

}  // namespace stiefel
