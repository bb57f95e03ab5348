#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <stiefel/parametrizations.h>
#include <stiefel/penalties.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

// Penalties and parametrisations as operators of the dispatcher. Their kernel for autograd calls the C++
// function, which builds the graph; where no gradient is wanted it goes on to the kernel of the device, so
// that tensors on the meta device need no arithmetic.

namespace stiefel {

namespace {

bool any_requires_grad(at::TensorList tensors) {
  return at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) {
           return t.defined() && t.requires_grad();
         });
}

at::Tensor penalty_kernel(at::TensorList weights, c10::string_view kind, int64_t rounds, bool batched,
                          const c10::optional<at::Generator>& generator) {
  PenaltyOptions options;
  options.rounds = rounds;
  options.batched = batched;
  if (generator) options.generator = *generator;
  return penalty(penalty_from_string(std::string(kind)), weights, options);
}

at::Tensor penalty_autograd(at::TensorList weights, c10::string_view kind, int64_t rounds, bool batched,
                            const c10::optional<at::Generator>& generator) {
  if (any_requires_grad(weights)) return penalty_kernel(weights, kind, rounds, batched, generator);
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("stiefel::penalty", "")
                                    .typed<decltype(penalty_kernel)>();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return operation.call(weights, kind, rounds, batched, generator);
}

/// In the proxy's memory format, whichever map made it.
at::Tensor weight_kernel(const at::Tensor& proxy, c10::string_view parametrization,
                         const c10::optional<at::Tensor>& base, int64_t group_size) {
  return orthonormal_weight(proxy, parametrization_from_string(std::string(parametrization)),
                            base.value_or(at::Tensor()), OmdsmOptions{group_size})
      .contiguous(proxy.suggest_memory_format());
}

at::Tensor weight_autograd(const at::Tensor& proxy, c10::string_view parametrization,
                           const c10::optional<at::Tensor>& base, int64_t group_size) {
  if (any_requires_grad({proxy, base.value_or(at::Tensor())})) {
    return weight_kernel(proxy, parametrization, base, group_size);
  }
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("stiefel::orthonormal_weight", "")
                                    .typed<decltype(weight_kernel)>();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return operation.call(proxy, parametrization, base, group_size);
}

/// An operator cannot return an undefined tensor: OMDSM's base is one without elements.
std::tuple<at::Tensor, at::Tensor> start_kernel(const at::Tensor& weight, c10::string_view parametrization) {
  const auto start = parametrized_start(weight, parametrization_from_string(std::string(parametrization)));
  return {start.proxy.contiguous(weight.suggest_memory_format()),
          start.base.defined() ? start.base.contiguous() : at::empty({0}, weight.options())};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(stiefel, library) {
  library.def(
      "penalty(Tensor[] weights, str kind, int rounds=2, bool batched=False, Generator? generator=None) -> "
      "Tensor");
  library.def(
      "orthonormal_weight(Tensor proxy, str parametrization, Tensor? base=None, int group_size=0) -> Tensor");
  library.def("parametrized_start(Tensor weight, str parametrization) -> (Tensor proxy, Tensor base)");
}

TORCH_LIBRARY_IMPL(stiefel, Autograd, library) {
  library.impl("penalty", penalty_autograd);
  library.impl("orthonormal_weight", weight_autograd);
}

TORCH_LIBRARY_IMPL(stiefel, CompositeExplicitAutograd, library) {
  library.impl("penalty", penalty_kernel);
  library.impl("orthonormal_weight", weight_kernel);
  library.impl("parametrized_start", start_kernel);
}

}  // namespace stiefel
