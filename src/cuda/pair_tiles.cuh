#pragma once

#include "mixed_context.cuh"

/// A small tile of a p×p matrix and its mirror image by one block, a few entries per thread.
namespace stiefel::cuda {

constexpr int kPairThreads = 256;
constexpr int kAcross = kPairThreads / kSmallSide;  // rows that the threads cover at once
constexpr int kEntries = kSmallSide / kAcross;      // entries that a thread has

/// A thread's entries of a small tile: (row(e), column()), lanes side by side in the column.
struct Mine {
  static __device__ int column() { return threadIdx.x % kSmallSide; }
  static __device__ int row(int e) { return threadIdx.x / kSmallSide + e * kAcross; }
};

using Entries = float[kEntries];

/// A thread's entries of the small tile that starts at (i, j), of a product whose partial sums lie in slabs.
/// Of a symmetric one, j's tile is at most i's. All entries are on their way before the first is needed.
__device__ inline void gather(Entries& values, const Context& c, const Layout& l, const Partials& sums, int i,
                              int j) {
  const int row = i / kTileSide, column = j / kTileSide, tiles = ceil_div(l.p, kTileSide);
  const float* at = c.slabs + sums.slab(row, column, tiles) * kTileSide * kTileSide +
                    (i % kTileSide + Mine::row(0)) * kTileSide + j % kTileSide + Mine::column();
#pragma unroll
  for (float& value : values) value = 0;
#pragma unroll 2
  for (int s = 0; s < sums.slabs; ++s) {
#pragma unroll
    for (int e = 0; e < kEntries; ++e) values[e] += at[s * kTileSide * kTileSide + e * kAcross * kTileSide];
  }
}

/// A small tile on its way to its mirror image.
struct Mirror {
  float tile[kSmallSide][kSmallSide + 1];

  /// Every thread gets the entries at (column(), row(e)) of what the threads hold at (row(e), column()).
  __device__ void exchange(Entries& values) {
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kEntries; ++e) tile[Mine::row(e)][Mine::column()] = values[e];
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kEntries; ++e) values[e] = tile[Mine::column()][Mine::row(e)];
  }
};

__device__ inline void store(float* matrix, const Layout& l, int i, int j, const Entries& values) {
#pragma unroll
  for (int e = 0; e < kEntries; ++e) {
    matrix[static_cast<int64_t>(i + Mine::row(e)) * l.side + j + Mine::column()] = values[e];
  }
}
__device__ inline void store(__half* matrix, const Layout& l, int i, int j, const Entries& values) {
#pragma unroll
  for (int e = 0; e < kEntries; ++e) {
    matrix[swizzled_index(i + Mine::row(e), j + Mine::column(), l.side / kBlockSide)] =
        __float2half_rn(values[e]);
  }
}

}  // namespace stiefel::cuda
