#include "recurrence_steps.h"

// The recurrence by LibTorch's operators, for devices that have no passes of their own.

namespace stiefel::models::detail {

namespace {

constexpr double kUnderRoot = 1e-5;

/// |z|², real.
at::Tensor squared(const at::Tensor& z) {
  return z.is_complex() ? at::view_as_real(z).square().sum(-1) : z.square();
}

/// Re z̄g.
at::Tensor along(const at::Tensor& z, const at::Tensor& g) {
  return z.is_complex() ? at::real(z.conj() * g) : z * g;
}

at::Tensor activate(const at::Tensor& z, const at::Tensor& b, Activation activation) {
  if (activation == Activation::kTanh) return (z + b).tanh_();
  const auto r = (squared(z) + kUnderRoot).sqrt_();
  return z * ((r + b).relu_() / r);
}

/// What a state's gradient g is for z and, summed over the batch, for b. With s = max(0, r + b)/r and
/// r = √(|z|² + 1e-5): δ = sg − (b/r³) Re(z̄g) z where the unit is on.
struct Slope {
  at::Tensor z;
  at::Tensor b;
};

Slope slope(const at::Tensor& z, const at::Tensor& b, const at::Tensor& g, Activation activation) {
  if (activation == Activation::kTanh) {
    const auto h = (z + b).tanh_();
    const auto delta = g * (1 - h * h);
    return {delta, delta.sum(0)};
  }
  const auto r = (squared(z) + kUnderRoot).sqrt_();
  const auto on = r + b > 0;
  const auto inner = along(z, g) * on;
  const auto scale = (r + b).relu_() / r;
  return {g * scale - z * (inner * b / (r * r * r)), (inner / r).sum(0)};
}

}  // namespace

Forward forward_any(const at::Tensor& inputs, const Recurrence& layer, bool all_states) {
  const int64_t steps = inputs.size(0), batch = inputs.size(1), n = layer.k.size(0);
  auto z = at::matmul(inputs.to(layer.k.scalar_type()), layer.v.t());
  const auto kt = layer.k.t();
  at::Tensor states = all_states ? at::empty({steps, batch, n}, z.options()) : at::Tensor();
  auto h = layer.h0.expand({batch, n});
  for (int64_t t = 0; t < steps; ++t) {
    auto now = z[t];
    now.addmm_(h, kt);
    h = activate(now, layer.b, layer.activation);
    if (all_states) states[t].copy_(h);
  }
  return {z, all_states ? states : h};
}

Backward backward_any(const at::Tensor& inputs, const Recurrence& layer, const at::Tensor& z,
                      const at::Tensor& gradient, bool all_states, bool with_inputs) {
  const int64_t steps = inputs.size(0), batch = inputs.size(1), n = layer.k.size(0);
  const auto k_conj = layer.k.conj().resolve_conj();
  auto delta = at::empty_like(z);
  Backward result;
  result.b = at::zeros_like(layer.b);
  auto g = all_states ? gradient[steps - 1] : gradient;
  for (int64_t t = steps; t-- > 0;) {
    const auto now = slope(z[t], layer.b, g, layer.activation);
    delta[t].copy_(now.z);
    result.b.add_(now.b);
    g = at::mm(now.z, k_conj);  // z = HKᵀ, so ∂H = δK̄
    if (all_states && t > 0) g.add_(gradient[t - 1]);
  }
  result.h0 = g.sum(0);
  // ∂K = Σ_t δ_tᵀ h̄_{t−1}: one product over all times and rows.
  auto before = at::empty_like(z);
  before[0].copy_(layer.h0.expand({batch, n}));
  if (steps > 1) {
    before.narrow(0, 1, steps - 1).copy_(activate(z.narrow(0, 0, steps - 1), layer.b, layer.activation));
  }
  const auto flat = delta.view({steps * batch, n}).t();
  result.k = at::mm(flat, before.view({steps * batch, n}).conj());
  result.v = at::mm(flat, inputs.reshape({steps * batch, -1}).to(z.scalar_type()));
  if (with_inputs) {
    const auto all = at::matmul(delta, layer.v.conj());
    result.inputs = all.is_complex() ? at::real(all).contiguous() : all;
  }
  return result;
}

}  // namespace stiefel::models::detail
