#pragma once

#include "small_tile.cuh"

/// Products of small matrices of floats in shared memory, without tensor cores. Compute capability 7.5.
namespace stiefel::cuda {

struct FloatProducts {
  using Cell = float;
  static constexpr int kPieces = 1;
  static constexpr int kRegistersPerThread = 168;

  static __device__ void store(float* to, float first, float second) {
    *reinterpret_cast<float2*>(to) = make_float2(first, second);
  }
  static __device__ float rest(float) { return 0; }

  /// sum ← sum + A Bᵀ, the tile of it.
  template <class Tile, class A, class B>
  static __device__ void add_transposed(typename Tile::Values& sum, const Tile& tile, const A& a,
                                        const B& b) {
    static_assert(A::kColumns == B::kColumns && A::kColumns % 4 == 0);
    const int t = Tile::lane() % 4;
#pragma unroll 1
    for (int k = 0; k < A::kColumns; k += 4) {
      float4 left[Tile::kDown][2];
      load_left(left, tile, a, k);
#pragma unroll
      for (int j = 0; j < Tile::kAcross; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float4 right = *reinterpret_cast<const float4*>(b.at(tile.column + 8 * j + 2 * t + e, k));
#pragma unroll
          for (int i = 0; i < Tile::kDown; ++i) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              float& value = sum.at[i][j][2 * h + e];
              value = fmaf(left[i][h].x, right.x, value);
              value = fmaf(left[i][h].y, right.y, value);
              value = fmaf(left[i][h].z, right.z, value);
              value = fmaf(left[i][h].w, right.w, value);
            }
          }
        }
      }
    }
  }

  /// sum ← sum + A B, the tile of it.
  template <class Tile, class A, class B>
  static __device__ void add_plain(typename Tile::Values& sum, const Tile& tile, const A& a, const B& b) {
    static_assert(A::kColumns == B::kRows && A::kColumns % 4 == 0);
    const int t = Tile::lane() % 4;
#pragma unroll 1
    for (int k = 0; k < A::kColumns; k += 4) {
      float4 left[Tile::kDown][2];
      load_left(left, tile, a, k);
#pragma unroll
      for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int j = 0; j < Tile::kAcross; ++j) {
          const float2 right = *reinterpret_cast<const float2*>(b.at(k + u, tile.column + 8 * j + 2 * t));
#pragma unroll
          for (int i = 0; i < Tile::kDown; ++i) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              const float4& l = left[i][h];
              const float by = u == 0 ? l.x : u == 1 ? l.y : u == 2 ? l.z : l.w;
              sum.at[i][j][2 * h] = fmaf(by, right.x, sum.at[i][j][2 * h]);
              sum.at[i][j][2 * h + 1] = fmaf(by, right.y, sum.at[i][j][2 * h + 1]);
            }
          }
        }
      }
    }
  }

 private:
  template <class Tile, class A>
  static __device__ void load_left(float4 (&left)[Tile::kDown][2], const Tile& tile, const A& a, int k) {
    const int g = Tile::lane() / 4;
#pragma unroll
    for (int i = 0; i < Tile::kDown; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        left[i][h] = *reinterpret_cast<const float4*>(a.at(tile.row + 16 * i + 8 * h + g, k));
      }
    }
  }
};

}  // namespace stiefel::cuda
