#include "recurrence.h"

#include <torch/csrc/autograd/custom_function.h>

#include "recurrence_steps.h"

namespace stiefel::models {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check(const at::Tensor& inputs, const Recurrence& layer) {
  TORCH_CHECK(inputs.dim() == 3 && inputs.size(0) > 0 && inputs.size(1) > 0,
              "stiefel: a recurrence takes inputs (T, B, D) with T and B at least 1; got ", inputs.sizes());
  const int64_t n = layer.k.size(0);
  TORCH_CHECK(layer.k.sizes() == at::IntArrayRef({n, n}), "stiefel: K must be square; got ", layer.k.sizes());
  TORCH_CHECK(layer.v.sizes() == at::IntArrayRef({n, inputs.size(2)}), "stiefel: V must be ", n, "×",
              inputs.size(2), "; got ", layer.v.sizes());
  TORCH_CHECK(layer.b.sizes() == at::IntArrayRef({n}) && layer.h0.sizes() == at::IntArrayRef({n}),
              "stiefel: b and h0 must have ", n, " entries; got ", layer.b.sizes(), " and ",
              layer.h0.sizes());
  const auto type = layer.k.scalar_type();
  const auto real = c10::toRealValueType(type);
  TORCH_CHECK(real == at::kFloat || real == at::kDouble, "stiefel: K must be float, double or complex; got ",
              type);
  TORCH_CHECK(layer.v.scalar_type() == type && layer.h0.scalar_type() == type &&
                  layer.b.scalar_type() == real && inputs.scalar_type() == real,
              "stiefel: V and h0 must be ", type, " like K, b and the inputs ", real, "; got ",
              layer.v.scalar_type(), ", ", layer.h0.scalar_type(), ", ", layer.b.scalar_type(), " and ",
              inputs.scalar_type());
  TORCH_CHECK(layer.activation != Activation::kTanh || !layer.k.is_complex(),
              "stiefel: tanh is for real networks; a complex one takes modReLU");
}

Recurrence plain(const at::Tensor& k, const at::Tensor& v, const at::Tensor& b, const at::Tensor& h0,
                 Activation activation) {
  const auto flat = [](const at::Tensor& t) { return t.detach().resolve_conj().contiguous(); };
  return {flat(k), flat(v), flat(b), flat(h0), activation};
}

/// The passes for a layer's device, numbers and size.
struct Passes {
  decltype(&detail::forward_any) forward;
  decltype(&detail::backward_any) backward;
};

Passes passes_for(const Recurrence& layer) {
  if (layer.k.device().is_cpu()) return {detail::forward_cpu, detail::backward_cpu};
#if STIEFEL_HAS_CUDA
  if (detail::cuda_takes(layer)) return {detail::forward_cuda, detail::backward_cuda};
#endif
  return {detail::forward_any, detail::backward_any};
}

class Unroll : public torch::autograd::Function<Unroll> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& inputs, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& b, const at::Tensor& h0,
                            int64_t activation, bool all_states) {
    const auto layer = plain(k, v, b, h0, static_cast<Activation>(activation));
    const auto x = inputs.detach().contiguous();
    const auto done = passes_for(layer).forward(x, layer, all_states);
    context->save_for_backward({inputs, k, v, b, h0, done.z});
    context->saved_data["activation"] = activation;
    context->saved_data["all_states"] = all_states;
    return done.states;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "stiefel: a recurrence can be differentiated once");
    const auto saved = context->get_saved_variables();
    const auto layer = plain(saved[1], saved[2], saved[3], saved[4],
                             static_cast<Activation>(context->saved_data["activation"].toInt()));
    const bool all_states = context->saved_data["all_states"].toBool();
    const auto x = saved[0].detach().contiguous();
    const auto gradient = gradients[0].resolve_conj().contiguous();
    auto result =
        passes_for(layer).backward(x, layer, saved[5], gradient, all_states, context->needs_input_grad(0));
    return {result.inputs, result.k, result.v, result.b, result.h0, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor unroll(const at::Tensor& inputs, const Recurrence& layer, bool all_states) {
  check(inputs, layer);
  return Unroll::apply(inputs, layer.k, layer.v, layer.b, layer.h0, static_cast<int64_t>(layer.activation),
                       all_states);
}

}  // namespace stiefel::models
