#pragma once

#include <cuda_fp16.h>

#ifdef __CUDACC__
#include "ptx.cuh"
#include "ptx_ampere.cuh"
#else  // a test runs the kernels on the CPU (tests/kernels/cuda_on_cpu)
#include <ptx_on_cpu.h>
#endif
#include "small_tile.cuh"

/// Products of small matrices of halves in shared memory on tensor cores. Compute capability 8.0.
namespace stiefel::cuda {

struct HalfProducts {
  using Cell = __half;
  /// A half has 11 bits: two of them hold what must be accurate.
  static constexpr int kPieces = 2;
  static constexpr int kRegistersPerThread = 128;

  static __device__ void store(__half* to, float first, float second) {
    *reinterpret_cast<__half2*>(to) = __floats2half2_rn(first, second);
  }
  /// What a half leaves of a value.
  static __device__ float rest(float value) { return value - __half2float(__float2half_rn(value)); }

  /// sum ← sum + A Bᵀ, the tile of it.
  template <class Tile, class A, class B>
  static __device__ void add_transposed(typename Tile::Values& sum, const Tile& tile, const A& a,
                                        const B& b) {
    static_assert(A::kColumns == B::kColumns && A::kColumns % 16 == 0);
    const int lane = Tile::lane();
#pragma unroll 1
    for (int k = 0; k < A::kColumns; k += 16) {
      uint32_t left[Tile::kDown][4];
      load_left(left, tile, a, k);
      if constexpr (Tile::kAcross == 1) {
        uint32_t right[2];
        ptx::load_two_matrices(right,
                               ptx::shared_address(b.at(tile.column + lane % 8, k + lane / 8 % 2 * 8)));
#pragma unroll
        for (int i = 0; i < Tile::kDown; ++i) {
          ptx::multiply_add(sum.at[i][0], left[i], right[0], right[1]);
        }
      } else {
        static_assert(Tile::kAcross == 1 || Tile::kAcross % 2 == 0);
#pragma unroll
        for (int j = 0; j < Tile::kAcross; j += 2) {
          uint32_t right[4];
          ptx::load_matrices(right, ptx::shared_address(b.at(tile.column + 8 * j + lane % 8 + lane / 16 * 8,
                                                             k + lane / 8 % 2 * 8)));
          multiply(sum, left, right, j);
        }
      }
    }
  }

  /// sum ← sum + A B, the tile of it.
  template <class Tile, class A, class B>
  static __device__ void add_plain(typename Tile::Values& sum, const Tile& tile, const A& a, const B& b) {
    static_assert(A::kColumns == B::kRows && A::kColumns % 16 == 0 && Tile::kAcross % 2 == 0);
    const int lane = Tile::lane();
#pragma unroll 1
    for (int k = 0; k < A::kColumns; k += 16) {
      uint32_t left[Tile::kDown][4];
      load_left(left, tile, a, k);
#pragma unroll
      for (int j = 0; j < Tile::kAcross; j += 2) {
        uint32_t right[4];
        ptx::load_matrices_transposed(
            right, ptx::shared_address(b.at(k + lane % 16, tile.column + 8 * j + lane / 16 * 8)));
        multiply(sum, left, right, j);
      }
    }
  }

 private:
  template <class Tile, class A>
  static __device__ void load_left(uint32_t (&left)[Tile::kDown][4], const Tile& tile, const A& a, int k) {
    const int lane = Tile::lane();
#pragma unroll
    for (int i = 0; i < Tile::kDown; ++i) {
      ptx::load_matrices(left[i],
                         ptx::shared_address(a.at(tile.row + 16 * i + lane % 16, k + lane / 16 * 8)));
    }
  }

  template <class Values, int kDown>
  static __device__ void multiply(Values& sum, const uint32_t (&left)[kDown][4], const uint32_t (&right)[4],
                                  int j) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
      ptx::multiply_add(sum.at[i][j], left[i], right[0], right[1]);
      ptx::multiply_add(sum.at[i][j + 1], left[i], right[2], right[3]);
    }
  }
};

}  // namespace stiefel::cuda
