#pragma once

#include "exchange.cuh"
#include "split_product.cuh"
#include "unit.cuh"

/// How a cluster's work is divided, and where the pieces lie in a block's shared memory.
namespace stiefel::models::cuda::cluster {

constexpr int kOwn = 32;           // units of a block
constexpr int kTileRows = 8;       // rows of the batch in a tile
constexpr int kMostTiles = 3;      // what shared memory holds at n = 512
constexpr int kPrefetchSteps = 8;  // between the prefetch of memory and its read
constexpr int kSumWarps = 4;  // warps that share the sum over h: a set, which has 16 of the block's units
constexpr int kSets = 2;
constexpr int kSetThreads = 32 * kSumWarps;
constexpr int kThreads = kSets * kSetThreads;
static_assert(kThreads == kOwn * kTileRows, "at the end of a step a thread has a unit of a row");

/// Sizes, in words of 32 bits where not said otherwise. P parts per number, kBlocks blocks per cluster.
///
/// A tile's vector is made of slabs: 16 units of its 8 rows, as right factors, a part after the other, each
/// lane's four words together, and then the scales of the rows. A set's own slab is sent whole.
template <int P, int kBlocks>
struct SlabSizes {
  static constexpr int kUnits = kOwn * kBlocks;
  static constexpr int kSlabs = kUnits / 16;
  static constexpr int kSlabsPerWarp = kSlabs / kSumWarps;
  static_assert(kSlabs % kSumWarps == 0, "the warps have equal shares");
  static constexpr int kPart = 32 * 4;
  static constexpr int kSlab = P * kPart + kTileRows;
  static constexpr int kVector = kSlabs * kSlab;
  /// What the warps add up: [warp][row][unit], rows so far apart that no two lanes of a warp write to one
  /// bank.
  static constexpr int kRowApart = P == 2 ? 34 : 36;
  static constexpr int kParts = kSumWarps * kTileRows * kRowApart * P;
  static_assert(kSlab % 4 == 0 && kVector % 4 == 0 && kParts % 4 == 0,
                "bulk copies and reads of four words need 16-byte alignment");
  /// Bytes that a slab brings from each set of the peers, all together.
  static constexpr unsigned kComing = (kBlocks - 1) * kSlab * sizeof(float);

  static constexpr size_t bytes(int tiles) {
    return sizeof(float) * (static_cast<size_t>(tiles) * (2 * kVector + kThreads * (1 + P)) + 2 * kParts) +
           sizeof(Arrival) * 2 * static_cast<size_t>(tiles);
  }
};
static_assert(SlabSizes<2, 16>::bytes(kMostTiles) <= 232448, "what a block may have of shared memory");

/// A block's shared memory.
template <int P, int kBlocks>
struct Memory {
  using Sizes = SlabSizes<P, kBlocks>;
  float* base;
  int tiles;

  __device__ __forceinline__ float* vector(int tile, int half) const {
    return base + (2 * tile + half) * Sizes::kVector;
  }
  __device__ __forceinline__ float* parts(int half) const {
    return base + 2 * tiles * Sizes::kVector + half * Sizes::kParts;
  }
  /// Sums over time that a thread keeps for a tile: ∂b, ∂V.
  __device__ __forceinline__ float* b_sum(int tile) const { return parts(2) + tile * kThreads; }
  __device__ __forceinline__ float* v_sum(int tile) const { return parts(2) + (tiles + P * tile) * kThreads; }
  __device__ __forceinline__ Arrival* arrival(int tile, int half) const {
    return reinterpret_cast<Arrival*>(parts(2) + (1 + P) * tiles * kThreads) + 2 * tile + half;
  }
};

/// The larger absolute value of a number's parts, as bits, which order as the values do. A NaN is larger than
/// all.
template <int P>
__device__ __forceinline__ unsigned size_of(const Number<P>& x) {
  const unsigned bits = __float_as_uint(x.part[0]) & 0x7fffffffu;
  return P == 1 ? bits : max(bits, __float_as_uint(x.part[P - 1]) & 0x7fffffffu);
}

/// Puts a unit of a row into its slab. 16 neighbouring lanes hold the slab's units of this row.
template <int P>
__device__ __forceinline__ void put_unit(float* slab, int unit, int row, const Number<P>& x) {
  const Scale scale(__reduce_max_sync(threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u, size_of(x)));
  // Right factors (2q…, group) and (2q + 8…, group) with group the row: big, big, small, small.
  const int lane = row * 4 + unit % 8 / 2;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    __half* words = reinterpret_cast<__half*>(slab + p * 128 + lane * 4 + unit / 8) + unit % 2;
    const Pieces pieces(x.part[p] * scale.up);
    words[0] = pieces.big;
    words[4] = pieces.small;
  }
  if (unit == 0) slab[P * 128 + row] = scale.back;
}

/// Puts a warp's part of a product where the threads that add them up look.
template <class Sizes, int P>
__device__ __forceinline__ void put_parts(float* parts, int unit, const Product (&sum)[P]) {
  const int group = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  const int warp = static_cast<int>(threadIdx.x) / 32 % kSumWarps;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Number<P> x;
#pragma unroll
    for (int p = 0; p < P; ++p) x.part[p] = sum[p].at[i];
    store(parts, (warp * kTileRows + 2 * q + i % 2) * Sizes::kRowApart + unit + group + i / 2 * 8, x);
  }
}

template <class Sizes, int P>
__device__ __forceinline__ Number<P> add_parts(const float* parts, int own, int row) {
  Number<P> sum{};
#pragma unroll
  for (int w = 0; w < kSumWarps; ++w)
    sum = plus(sum, 1.0f, load<P>(parts, (w * kTileRows + row) * Sizes::kRowApart + own));
  return sum;
}

}  // namespace stiefel::models::cuda::cluster
