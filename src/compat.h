#pragma once

#include <ATen/ATen.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>
#include <torch/version.h>

#include <optional>
#include <string>

/// What differs between LibTorch 1.13 and 2.x.
namespace stiefel {

/// The key of a parameter in an optimiser's state.
#if TORCH_VERSION_MAJOR >= 2
inline void* state_key(const at::Tensor& parameter) { return parameter.unsafeGetTensorImpl(); }
#else
inline std::string state_key(const at::Tensor& parameter) {
  return c10::guts::to_string(parameter.unsafeGetTensorImpl());
}
#endif

// Kernels that update many parameters at once and read the rate from the device; LibTorch has them since 2.3.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
constexpr bool kHasFusedSteps = true;

/// A step of SGD that is not its first. `momenta` is empty without momentum.
inline void fused_sgd_(at::TensorList parameters, at::TensorList gradients, at::TensorList momenta,
                       double weight_decay, double momentum, const at::Tensor& rate, double dampening,
                       bool nesterov) {
  at::_fused_sgd_(parameters, gradients, momenta, weight_decay, momentum, rate, dampening, nesterov,
                  /*maximize=*/false, /*is_first_step=*/false);
}

/// A step of Adam, or of AdamW, with the step counts already advanced.
inline void fused_adam_(bool decoupled, at::TensorList parameters, at::TensorList gradients,
                        at::TensorList averages, at::TensorList squares, at::TensorList steps,
                        const at::Tensor& rate, double beta1, double beta2, double weight_decay, double eps) {
  const auto step = [&](auto&& kernel_) {
    kernel_(parameters, gradients, averages, squares, /*max_exp_avg_sqs=*/at::TensorList(), steps, rate,
            beta1, beta2, weight_decay, eps, /*amsgrad=*/false, /*maximize=*/false);
  };
  if (decoupled) {
    step([](auto&&... all) { at::_fused_adamw_(all...); });
  } else {
    step([](auto&&... all) { at::_fused_adam_(all...); });
  }
}

/// tᵢ ← c·tᵢ of all tensors.
inline void foreach_mul_(at::TensorList tensors, const at::Tensor& c) { at::_foreach_mul_(tensors, c); }
#else
constexpr bool kHasFusedSteps = false;

template <class... Arguments>
void fused_sgd_(const Arguments&...) {
  TORCH_INTERNAL_ASSERT(false, "this LibTorch has no fused steps");
}

template <class... Arguments>
void fused_adam_(const Arguments&...) {
  TORCH_INTERNAL_ASSERT(false, "this LibTorch has no fused steps");
}

inline void foreach_mul_(at::TensorList tensors, const at::Tensor& c) {
  for (const auto& t : tensors) t.mul_(c);
}
#endif

/// An optional generator as ATen's functions take it.
inline c10::optional<at::Generator> aten_generator(const std::optional<at::Generator>& generator) {
  return generator ? c10::optional<at::Generator>(*generator) : c10::nullopt;
}

/// One value of an archive; throws naming the key where it is missing.
inline c10::IValue read_value(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  TORCH_CHECK(archive.try_read(key, value), "stiefel: the archive holds no '", key,
              "': it was not written by this optimiser, or by another version of it");
  return value;
}

}  // namespace stiefel
