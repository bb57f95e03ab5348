#include <type_traits>

#include "recurrence_paths.h"
#include "row_tile.cuh"

// A block takes one row of the batch through the whole sequence by itself: no block waits for another. K is
// in the block's registers (116² complex numbers are 105 KB of 256), so that a step reads only h from shared
// memory:
//
//   eight lanes share kRows rows of K, each with every eighth pair of columns; a step is a broadcast read of
//   h, the products, a sum over the eight lanes by shuffles, the activation and one barrier.
//
// The way back is the same with Kᴴ in the registers and δ in place of h.

namespace stiefel::models::cuda::row {

namespace {

constexpr int kPrefetchSteps = 8;  // between the prefetch of memory and its read

template <int P, bool kTanh, int kRows, int kPairs>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(RecurrenceShape shape, ForwardPass pass) {
  using Matrix = Tile<P, kRows, kPairs>;
  __shared__ alignas(16) float h[2][Matrix::kUnits * P];
  constexpr unsigned kHalf = sizeof(h) / 2;
  const int n = shape.n, row = static_cast<int>(blockIdx.x), j = Matrix::unit();
  const size_t here = static_cast<size_t>(row) * n + j;
  const size_t stride = static_cast<size_t>(shape.batch) * n * P;  // from a step to the next
  const bool one = pass.x != nullptr;
  const bool real_unit = j < n, writes = real_unit && Matrix::twin() == 0;
  Matrix k;
  k.template fill<false>(pass.k, n);
  for (int i = threadIdx.x; i < Matrix::kUnits * P; i += kThreads) {
    h[0][i] = i < n * P ? pass.h0[i] : 0.0f;
    h[1][i] = 0.0f;
  }
  const float bias = real_unit ? pass.b[j] : 0.0f;
  const Number<P> v = one && real_unit ? load<P>(pass.v, j) : Number<P>{};
  float* z_at = pass.z + here * P;
  float* state_at = pass.states + here * P;
  // V x_t, or x_t itself, is read a step before it is used.
  const float* input_at = one ? pass.x + row : z_at;
  const size_t input_stride = one ? static_cast<size_t>(shape.batch) : stride;
  const bool prefetches = one ? threadIdx.x == 0 : writes;
  const auto read = [&](Number<P>& input) {
    if (one) {
      input.part[0] = *input_at;
    } else if (real_unit) {
      input = load<P>(input_at, 0);
    }
  };
  Number<P> input{}, next{};
  read(input);
  const unsigned from = Matrix::first_pair(address_of(h[0]));
  const unsigned to = address_of(h[0]) + static_cast<unsigned>(j * P * sizeof(float));
  __syncthreads();
  for (int t = 0; t < shape.steps; ++t) {
    input_at += input_stride;
    if (t + 1 < shape.steps) read(next);
    if (prefetches && t + kPrefetchSteps < shape.steps)
      ptx::prefetch_l2(input_at + (kPrefetchSteps - 1) * input_stride);
    const Number<P> product = k.times(from + (t & 1) * kHalf);
    const Number<P> z = one ? plus(product, input.part[0], v) : plus(product, 1.0f, input);
    const Number<P> state = Unit<P, kTanh>(z, bias).h();
    if (writes) {
      write_one<P>(to + (~t & 1) * kHalf, state);
      store(z_at, 0, z);
      if (pass.all_states || t + 1 == shape.steps) store(state_at, 0, state);
    }
    z_at += stride;
    if (pass.all_states) state_at += stride;
    input = next;
    __syncthreads();  // one is enough: the next step writes the other half
  }
}

template <int P, bool kTanh, int kRows, int kPairs>
__global__ void __launch_bounds__(kThreads, 1) backward_kernel(RecurrenceShape shape, BackwardPass pass) {
  using Matrix = Tile<P, kRows, kPairs>;
  __shared__ alignas(16) float delta[2][Matrix::kUnits * P];
  constexpr unsigned kHalf = sizeof(delta) / 2;
  const int n = shape.n, row = static_cast<int>(blockIdx.x), j = Matrix::unit();
  const size_t here = static_cast<size_t>(row) * n + j;
  const size_t stride = static_cast<size_t>(shape.batch) * n * P;
  constexpr int kTwins = kLanes / kRows;
  const bool real_unit = j < n, writes = real_unit && Matrix::twin() == 0;
  const bool writes_state = real_unit && Matrix::twin() == kTwins - 1;  // the two stores go to two threads
  const bool one = pass.x != nullptr;
  Matrix k;
  k.template fill<true>(pass.k, n);
  for (int i = threadIdx.x; i < Matrix::kUnits * P; i += kThreads) delta[0][i] = delta[1][i] = 0.0f;
  const float bias = real_unit ? pass.b[j] : 0.0f;
  const int last = shape.steps - 1;
  const size_t end = here * P + static_cast<size_t>(last) * stride;  // of the last step
  const float* z_at = pass.z + end;
  float* delta_at = pass.delta + end;
  float* before_at = pass.before + end;
  const float* more_at = pass.gradient + (pass.all_states ? end : here * P);
  const float* x_at = pass.x + static_cast<size_t>(last) * shape.batch + row;
  const auto read = [&](const float* from) { return real_unit ? load<P>(from, 0) : Number<P>{}; };
  Number<P> g = read(more_at), dv{};
  float db = 0, x = one ? *x_at : 0.0f;
  Unit<P, kTanh> unit(read(z_at), bias);
  Number<P> z{};
  if (last > 0) z = read(z_at - stride);
  z_at -= 2 * stride;  // z_{t−2} is read in step t
  if (writes_state) store(pass.before, here, load<P>(pass.h0, j));
  const unsigned from = Matrix::first_pair(address_of(delta[0]));
  const unsigned to = address_of(delta[0]) + static_cast<unsigned>(j * P * sizeof(float));
  __syncthreads();
  for (int t = last; t >= 0; --t) {
    const Number<P> d = unit.slope(g, db);
    const unsigned half = (t & 1) * kHalf;
    if (writes) {
      write_one<P>(to + half, d);
      store(delta_at, 0, d);
    }
    __syncthreads();
    // What the step before needs, while the products run.
    dv = plus(dv, x, d);
    unit = Unit<P, kTanh>(z, bias);
    if (t > 0) {
      if (writes_state) store(before_at, 0, unit.h());
      if (t > 1) z = read(z_at);
      x_at -= shape.batch;
      if (one) x = *x_at;
    }
    Number<P> more{};
    if (pass.all_states) {
      more_at -= stride;
      if (t > 0) more = read(more_at);
    }
    if (t > kPrefetchSteps) {
      if (writes) {
        ptx::prefetch_l2(z_at - (kPrefetchSteps - 2) * stride);
        if (pass.all_states) ptx::prefetch_l2(more_at - (kPrefetchSteps - 1) * stride);
      }
      if (one && threadIdx.x == 0)
        ptx::prefetch_l2(x_at - static_cast<size_t>(kPrefetchSteps - 1) * shape.batch);
    }
    z_at -= stride;
    delta_at -= stride;
    before_at -= stride;
    g = plus(more, 1.0f, k.times(from + half));  // ∂h_{t−1} = Kᴴδ_t
  }
  if (writes) {
    store(pass.h0_rows, here, g);
    pass.b_rows[here] = db;
    if (pass.v_rows != nullptr) store(pass.v_rows, here, dv);
  }
}

/// Calls launch.template with<P, kTanh, kRows, kPairs>() for the smallest matrix that holds n.
template <class Launch>
cudaError_t choose(const RecurrenceShape& shape, const Launch& launch) {
  const auto sized = [&](auto parts, auto tanh) {
    constexpr int P = decltype(parts)::value;
    constexpr bool kTanh = decltype(tanh)::value;
    if (shape.n <= 32) return launch.template with<P, kTanh, 1, 2>();
    if (shape.n <= 64) return launch.template with<P, kTanh, 2, 4>();
    return launch.template with<P, kTanh, 4, 8>();
  };
  if (shape.complex) return sized(std::integral_constant<int, 2>{}, std::false_type{});
  return shape.tanh ? sized(std::integral_constant<int, 1>{}, std::true_type{})
                    : sized(std::integral_constant<int, 1>{}, std::false_type{});
}

struct LaunchForward {
  const RecurrenceShape& shape;
  const ForwardPass& pass;
  cudaStream_t stream;
  template <int P, bool kTanh, int kRows, int kPairs>
  cudaError_t with() const {
    forward_kernel<P, kTanh, kRows, kPairs>
        <<<static_cast<unsigned>(shape.batch), kThreads, 0, stream>>>(shape, pass);
    return cudaGetLastError();
  }
};

struct LaunchBackward {
  const RecurrenceShape& shape;
  const BackwardPass& pass;
  cudaStream_t stream;
  template <int P, bool kTanh, int kRows, int kPairs>
  cudaError_t with() const {
    backward_kernel<P, kTanh, kRows, kPairs>
        <<<static_cast<unsigned>(shape.batch), kThreads, 0, stream>>>(shape, pass);
    return cudaGetLastError();
  }
};

}  // namespace

bool fits(int n) {
  if (n < 1 || n > 128) return false;
  cudaFuncAttributes attributes;  // none where the kernels were compiled for other devices
  if (cudaFuncGetAttributes(&attributes, forward_kernel<2, false, 4, 8>) == cudaSuccess) return true;
  cudaGetLastError();  // the answer is no; nothing has failed
  return false;
}

cudaError_t forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream) {
  return choose(shape, LaunchForward{shape, pass, stream});
}

cudaError_t backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream) {
  return choose(shape, LaunchBackward{shape, pass, stream});
}

}  // namespace stiefel::models::cuda::row
