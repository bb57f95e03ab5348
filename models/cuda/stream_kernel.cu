#include <cstdint>
#include <type_traits>

#include "recurrence_paths.h"
#include "stream_product.cuh"
#ifdef __CUDACC__
#include "src/cuda/ptx.cuh"
#endif

// A block takes some rows of the batch through the whole sequence by itself, with h (back: δ) in shared
// memory and K in global memory, which for its size stays in the second-level cache: each step reads K from
// there once, for all rows of the block.
//
//   a step: the products, their sums to shared memory; a barrier; z, the activation and what goes to global
//   memory, a thread per unit and row; a barrier.
//
// No instruction is newer than Turing's, so that one source runs on all cards since then.

namespace stiefel::models::cuda::stream {

namespace {

/// Brings a line into the second-level cache. A step takes longer than the memory does, so one step ahead is
/// early enough.
__device__ __forceinline__ void prefetch(const float* address) {
#ifdef __CUDACC__
  ptx::prefetch_l2(address);
#else  // a test runs the kernels on the CPU (tests/kernels/cuda_on_cpu)
  (void)address;
#endif
}

__device__ __forceinline__ float* shared_memory() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) float memory[];
  return memory;
#else
  return cuda_on_cpu::dynamic_memory();
#endif
}

/// The row of the batch whose units a thread ends a step for, and which units.
template <int kRows>
struct Ends {
  static constexpr int kStride = kThreads / kRows;
  int own;  // row in the block
  int row;  // in the batch
  int first_unit, end_unit;
  __device__ __forceinline__ explicit Ends(const RecurrenceShape& shape)
      : own(threadIdx.x / kStride),
        row(static_cast<int>(blockIdx.x) * kRows + own),
        first_unit(threadIdx.x % kStride),
        end_unit(own < kRows && row < shape.batch ? shape.n : 0) {}
};

template <int P, bool kTanh, int kRows, int kWidth>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(RecurrenceShape shape, ForwardPass pass) {
  const int n = shape.n, stride = row_floats(n, P);
  float* const h = shared_memory();  // [kRows][stride]
  float* const sums = h + kRows * stride;
  const Ends<kRows> end(shape);
  const bool one = pass.x != nullptr;
  RowProduct<P, kRows, kWidth> product(pass.k, n);
  for (int i = threadIdx.x; i < kRows * stride; i += kThreads)
    h[i] = i % stride < n * P ? pass.h0[i % stride] : 0.0f;
  __syncthreads();
  for (int t = 0; t < shape.steps; ++t) {
    const bool last = t + 1 == shape.steps;
    const float x =
        one && end.row < shape.batch ? pass.x[static_cast<size_t>(t) * shape.batch + end.row] : 0.0f;
    product.times(h, sums);
    __syncthreads();
    const size_t row = static_cast<size_t>(t) * shape.batch + end.row;
    for (int j = end.first_unit; j < end.end_unit; j += end.kStride) {
      const size_t at = row * n + j;
      const Number<P> kh = load<P>(sums + end.own * stride, j);
      const Number<P> z = one ? plus(kh, x, load<P>(pass.v, j)) : plus(kh, 1.0f, load<P>(pass.z, at));
      const Number<P> state = Unit<P, kTanh>(z, pass.b[j]).h();
      store(h + end.own * stride, j, state);
      store(pass.z, at, z);
      if (pass.all_states) {
        store(pass.states, at, state);
      } else if (last) {
        store(pass.states, static_cast<size_t>(end.row) * n + j, state);
      }
      if (!one && !last) prefetch(pass.z + (at + static_cast<size_t>(shape.batch) * n) * P);
    }
    __syncthreads();
  }
}

template <int P, bool kTanh, int kRows, int kWidth>
__global__ void __launch_bounds__(kThreads, 1) backward_kernel(RecurrenceShape shape, BackwardPass pass) {
  const int n = shape.n, deltas = divide_up(n, kDeep) * kDeep * kRows * P;
  float* const delta = shared_memory();  // [n, rounded up to kDeep][kRows]
  float* const slots = delta + deltas;
  const Ends<kRows> end(shape);
  const bool one = pass.x != nullptr;
  const size_t stride = static_cast<size_t>(shape.batch) * n;  // from a step to the next
  const size_t rows = static_cast<size_t>(end.row) * n;        // of this row in arrays without time
  ColumnProduct<P, kRows, kWidth> product(pass.k, n);
  for (int i = threadIdx.x; i < deltas; i += kThreads) delta[i] = 0.0f;
  __syncthreads();
  for (int t = shape.steps - 1; t >= 0; --t) {
    const bool first = t + 1 == shape.steps;
    const float x =
        one && end.row < shape.batch ? pass.x[static_cast<size_t>(t) * shape.batch + end.row] : 0.0f;
    for (int j = end.first_unit; j < end.end_unit; j += end.kStride) {
      const size_t at = t * stride + rows + j;
      Number<P> g{}, dv{};
      float db = 0;
      if (!first) {
        g = product.sum(slots, end.own, j);  // ∂h_t = Kᴴδ_{t+1}
        db = pass.b_rows[rows + j];
        if (pass.v_rows != nullptr) dv = load<P>(pass.v_rows, rows + j);
      }
      if (pass.all_states || first)
        g = plus(g, 1.0f, load<P>(pass.gradient, pass.all_states ? at : rows + j));
      const Unit<P, kTanh> unit(load<P>(pass.z, at), pass.b[j]);
      const Number<P> d = unit.slope(g, db);
      store(delta, static_cast<size_t>(j) * kRows + end.own, d);
      store(pass.delta, at, d);
      if (!first) store(pass.before, at + stride, unit.h());
      pass.b_rows[rows + j] = db;
      if (pass.v_rows != nullptr) store(pass.v_rows, rows + j, plus(dv, x, d));
      if (t > 0) {
        prefetch(pass.z + (at - stride) * P);
        if (pass.all_states) prefetch(pass.gradient + (at - stride) * P);
      }
    }
    __syncthreads();
    product.times(delta, slots);
    __syncthreads();
  }
  for (int j = end.first_unit; j < end.end_unit; j += end.kStride) {
    store(pass.before, rows + j, load<P>(pass.h0, j));
    store(pass.h0_rows, rows + j, product.sum(slots, end.own, j));
  }
}

template <class Kernel, class Pass>
cudaError_t launch(Kernel kernel, const RecurrenceShape& shape, const Pass& pass, int rows, int floats,
                   cudaStream_t stream) {
  const int bytes = floats * static_cast<int>(sizeof(float));
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(divide_up(shape.batch, rows)));
#ifdef __CUDACC__
  kernel<<<grid, kThreads, static_cast<size_t>(bytes), stream>>>(shape, pass);
#else
  (void)stream;
  cuda_on_cpu::run(grid, kThreads, [&] { kernel(shape, pass); });
#endif
  return cudaGetLastError();
}

struct Launch {
  const RecurrenceShape& shape;
  cudaStream_t stream;
  template <int P, bool kTanh, int kRows, int kWidth>
  cudaError_t with(const ForwardPass& pass) const {
    return launch(forward_kernel<P, kTanh, kRows, kWidth>, shape, pass, kRows,
                  forward_floats(shape.n, P, kRows), stream);
  }
  template <int P, bool kTanh, int kRows, int kWidth>
  cudaError_t with(const BackwardPass& pass) const {
    return launch(backward_kernel<P, kTanh, kRows, kWidth>, shape, pass, kRows,
                  backward_floats(shape.n, P, kRows, kWidth), stream);
  }
};

cudaError_t read_card(Card& card) {
  int device = 0, major = 0, minor = 0;
  cudaError_t status = cudaGetDevice(&device);
  const auto get = [&](int& value, cudaDeviceAttr attribute) {
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&value, attribute, device);
  };
  get(card.processors, cudaDevAttrMultiProcessorCount);
  get(card.memory, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  get(major, cudaDevAttrComputeCapabilityMajor);
  get(minor, cudaDevAttrComputeCapabilityMinor);
  card.memory = card.memory < kMostMemory ? card.memory : kMostMemory;
  card.lanes = major * 10 + minor <= 80 ? 64 : 128;
  return status;
}

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

/// The pass with the kernel for the shape, the card and the place of K in memory.
template <class Pass>
cudaError_t run(Direction direction, const RecurrenceShape& shape, const Pass& pass, cudaStream_t stream) {
  Card card{};
  const cudaError_t status = read_card(card);
  if (status != cudaSuccess) return status;
  const int parts = shape.complex ? 2 : 1;
  const bool wide = shape.n * parts % 4 == 0 && reinterpret_cast<uintptr_t>(pass.k) % 16 == 0;
  const Launch to{shape, stream};
  const auto with_rows = [&](auto P, auto tanh, auto rows) {
    constexpr int kRows = decltype(rows)::value, kParts = decltype(P)::value;
    constexpr bool kTanh = decltype(tanh)::value != 0;
    return wide ? to.template with<kParts, kTanh, kRows, 4 / kParts>(pass)
                : to.template with<kParts, kTanh, kRows, 1>(pass);
  };
  const auto with_unit = [&](auto P, auto tanh) {
    switch (rows_for(direction, shape.n, parts, shape.batch, card)) {
      case 2:
        return with_rows(P, tanh, Constant<2>{});
      case 4:
        return with_rows(P, tanh, Constant<4>{});
      case 6:
        return with_rows(P, tanh, Constant<6>{});
      case 8:
        return with_rows(P, tanh, Constant<8>{});
      default:
        return cudaErrorInvalidValue;
    }
  };
  if (shape.complex) return with_unit(Constant<2>{}, Constant<0>{});
  return shape.tanh ? with_unit(Constant<1>{}, Constant<1>{}) : with_unit(Constant<1>{}, Constant<0>{});
}

}  // namespace

bool fits(int n, bool complex) {
  if (n < kLeastUnits || n > kMostUnits) return false;
  Card card{};
  cudaFuncAttributes attributes;  // none where the kernels were compiled for other devices
  if (cudaFuncGetAttributes(&attributes, forward_kernel<2, false, 4, 2>) == cudaSuccess &&
      read_card(card) == cudaSuccess)
    return rows_for(Direction::kBackward, n, complex ? 2 : 1, 1, card) > 0;
  cudaGetLastError();  // the answer is no; nothing has failed
  return false;
}

cudaError_t forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream) {
  return run(Direction::kForward, shape, pass, stream);
}

cudaError_t backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream) {
  return run(Direction::kBackward, shape, pass, stream);
}

}  // namespace stiefel::models::cuda::stream
