#pragma once

#include "src/cuda/ptx.cuh"
#include "unit.cuh"

/// A square matrix across the registers of a block, and its product with a vector in shared memory.
namespace stiefel::models::cuda::row {

constexpr int kThreads = 256;
constexpr int kLanes = 8;  // that share a row of K
constexpr int kGroups = kThreads / kLanes;

/// The address of shared memory, held in a register: the compiler would otherwise compute it in every step.
__device__ __forceinline__ unsigned address_of(const float* shared) {
  unsigned address = ptx::shared_address(shared);
  asm volatile("" : "+r"(address));
  return address;
}

/// Two neighbours of a vector, read at once.
template <int P>
__device__ __forceinline__ void read_pair(unsigned address, Number<P> (&x)[2]) {
  if constexpr (P == 2) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0].part[0]), "=f"(x[0].part[P - 1]), "=f"(x[1].part[0]), "=f"(x[1].part[P - 1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(x[0].part[0]), "=f"(x[1].part[0])
                 : "r"(address)
                 : "memory");
  }
}

template <int P>
__device__ __forceinline__ void write_one(unsigned address, const Number<P>& x) {
  if constexpr (P == 2) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x.part[0]), "f"(x.part[P - 1])
                 : "memory");
  } else {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x.part[0]) : "memory");
  }
}

/// A thread's part of a square matrix and its product with a vector in shared memory. P parts per number,
/// kRows rows per thread, kPairs pairs of columns.
template <int P, int kRows, int kPairs>
class Tile {
 public:
  static constexpr int kUnits = kGroups * kRows;
  static constexpr int kColumns = kLanes * 2 * kPairs;
  static_assert(kUnits == kColumns, "the matrix is square");

  /// The matrix itself, or its conjugate transpose; zero outside n×n.
  template <bool kAdjoint>
  __device__ __forceinline__ void fill(const float* k, int n) {
    const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < 2 * kPairs; ++c) {
        const int row = group * kRows + i;
        const int column = (c / 2 * kLanes + lane) * 2 + c % 2;
        Number<P> x{};
        if (row < n && column < n)
          x = load<P>(
              k, kAdjoint ? static_cast<size_t>(column) * n + row : static_cast<size_t>(row) * n + column);
        if (kAdjoint && P == 2) x.part[P - 1] = -x.part[P - 1];
        k_[i][c] = x;
      }
    }
  }

  /// The unit whose entry of the product this thread gets; two threads get each where kRows is 4, and so on.
  __device__ __forceinline__ static int unit() {
    const int lane = threadIdx.x % kLanes;
    return threadIdx.x / kLanes * kRows + lane / (kLanes / kRows);
  }

  /// Where a thread begins to read a vector that begins at `address`.
  __device__ __forceinline__ static unsigned first_pair(unsigned address) {
    return address + static_cast<unsigned>(threadIdx.x % kLanes * 2 * P * sizeof(float));
  }

  /// Which of the threads that get an entry this one is.
  __device__ __forceinline__ static int twin() { return threadIdx.x % (kLanes / kRows); }

  /// `vector` is the address of its lane-th pair.
  __device__ __forceinline__ Number<P> times(unsigned vector) const {
    Number<P> sum[kRows]{};
#pragma unroll
    for (int c = 0; c < kPairs; ++c) {
      Number<P> h[2];
      read_pair<P>(vector + static_cast<unsigned>(c * kLanes * sizeof(h)), h);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const Number<P>& k = k_[i][2 * c + e];
          if constexpr (P == 2) {
            sum[i].part[0] = fmaf(k.part[0], h[e].part[0], sum[i].part[0]);
            sum[i].part[1] = fmaf(k.part[0], h[e].part[1], sum[i].part[1]);
            sum[i].part[0] = fmaf(-k.part[1], h[e].part[1], sum[i].part[0]);
            sum[i].part[1] = fmaf(k.part[1], h[e].part[0], sum[i].part[1]);
          } else {
            sum[i].part[0] = fmaf(k.part[0], h[e].part[0], sum[i].part[0]);
          }
        }
      }
    }
    return gather(sum);
  }

 private:
  /// The sums over the eight lanes, each halving of the lanes halving the rows that a lane adds up.
  __device__ __forceinline__ static Number<P> gather(Number<P> (&sum)[kRows]) {
    const int lane = threadIdx.x % kLanes;
    int away = kLanes / 2;
#pragma unroll
    for (int rows = kRows / 2; rows >= 1; rows /= 2) {
      const bool upper = lane & away;
#pragma unroll
      for (int i = 0; i < rows; ++i) {
#pragma unroll
        for (int p = 0; p < P; ++p) {
          const float given = upper ? sum[i].part[p] : sum[i + rows].part[p];
          const float own = upper ? sum[i + rows].part[p] : sum[i].part[p];
          sum[i].part[p] = own + __shfl_xor_sync(~0u, given, away);
        }
      }
      away /= 2;
    }
#pragma unroll
    for (int rest = kLanes / 2 / kRows; rest >= 1; rest /= 2) {
#pragma unroll
      for (int p = 0; p < P; ++p) sum[0].part[p] += __shfl_xor_sync(~0u, sum[0].part[p], rest);
    }
    return sum[0];
  }

  Number<P> k_[kRows][2 * kPairs];
};

}  // namespace stiefel::models::cuda::row
