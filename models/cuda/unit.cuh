#pragma once

/// A hidden unit's arithmetic, for all kernels of the recurrence: numbers of P = 1 (real) or 2 (complex)
/// parts, and the activations.
namespace stiefel::models::cuda {

template <int P>
struct Number {
  float part[P];
};

/// The i-th number of an array.
template <int P>
__device__ __forceinline__ Number<P> load(const float* from, size_t i) {
  Number<P> x;
  if constexpr (P == 2) {
    const float2 pair = reinterpret_cast<const float2*>(from)[i];
    x.part[0] = pair.x;
    x.part[1] = pair.y;
  } else {
    x.part[0] = from[i];
  }
  return x;
}

template <int P>
__device__ __forceinline__ void store(float* to, size_t i, const Number<P>& x) {
  if constexpr (P == 2) {
    reinterpret_cast<float2*>(to)[i] = make_float2(x.part[0], x.part[1]);
  } else {
    to[i] = x.part[0];
  }
}

/// x + a·y with a real.
template <int P>
__device__ __forceinline__ Number<P> plus(const Number<P>& x, float a, const Number<P>& y) {
  Number<P> sum;
#pragma unroll
  for (int p = 0; p < P; ++p) sum.part[p] = fmaf(a, y.part[p], x.part[p]);
  return sum;
}

/// The activation at z, h, and what of its slope does not depend on the gradient.
template <int P, bool kTanh>
struct Unit;

/// h = s z with s = max(0, 1 + b/r), r = √(|z|² + 1e-5): the same as z·max(0, r + b)/r, and exact at b = 0.
template <int P>
struct Unit<P, false> {
  Number<P> z;
  float s, inverse, bias;

  __device__ __forceinline__ Unit(const Number<P>& at, float b) : z(at), bias(b) {
    float square = 1e-5f;
#pragma unroll
    for (int p = 0; p < P; ++p) square = fmaf(z.part[p], z.part[p], square);
    inverse = rsqrtf(square);
    const float on = fmaf(b, inverse, 1.0f);
    s = on < 0 ? 0.0f : on;  // a NaN stays one
  }

  __device__ __forceinline__ Number<P> h() const {
    Number<P> state;
#pragma unroll
    for (int p = 0; p < P; ++p) state.part[p] = s * z.part[p];
    return state;
  }

  /// δ = sg − (b/r³) Re(z̄g) z where the unit is on; ∂b = Re(z̄g)/r is added to db.
  __device__ __forceinline__ Number<P> slope(const Number<P>& g, float& db) const {
    float inner = 0;
#pragma unroll
    for (int p = 0; p < P; ++p) inner = fmaf(z.part[p], g.part[p], inner);
    inner = s == 0 ? 0.0f : inner * inverse;
    db += inner;
    const float back = -inner * bias * inverse * inverse;
    Number<P> delta;
#pragma unroll
    for (int p = 0; p < P; ++p) delta.part[p] = fmaf(s, g.part[p], back * z.part[p]);
    return delta;
  }
};

/// h = tanh(z + b), δ = g(1 − h²).
template <int P>
struct Unit<P, true> {
  float state;

  __device__ __forceinline__ Unit(const Number<P>& z, float b) : state(tanhf(z.part[0] + b)) {}

  __device__ __forceinline__ Number<P> h() const { return {{state}}; }

  __device__ __forceinline__ Number<P> slope(const Number<P>& g, float& db) const {
    const float delta = g.part[0] * fmaf(-state, state, 1.0f);
    db += delta;
    return {{delta}};
  }
};

}  // namespace stiefel::models::cuda
