#pragma once

#include <ATen/ATen.h>

namespace stiefel::models {

/// What a hidden unit does with its input z and its bias b.
enum class Activation {
  kModRelu,  ///< z·max(0, |z| + b)/|z|, |z| with 1e-5 under the root: the phase stays, the modulus shrinks
  kTanh,     ///< tanh(z + b), for real networks
};

/// A recurrent layer's weights. K, V and h₀ are of one type, real or complex; b is real.
struct Recurrence {
  at::Tensor k;   ///< hidden to hidden, N×N
  at::Tensor v;   ///< input to hidden, N×D
  at::Tensor b;   ///< biases, N
  at::Tensor h0;  ///< the first state, N
  Activation activation = Activation::kModRelu;
};

/// Runs a layer over a whole sequence, as one differentiable function:
///
///     z_t = K h_{t−1} + V x_t,   h_t = f(z_t, b),   t = 1 … T.
///
/// `inputs` is (T, B, D), real. Returns h_T as (B, N), or with `all_states` all of them as (T, B, N). Every
/// z_t is kept for the way back, which is derived by hand: no graph of T steps is built. Differentiable once.
at::Tensor unroll(const at::Tensor& inputs, const Recurrence& layer, bool all_states = false);

}  // namespace stiefel::models
