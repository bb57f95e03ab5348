#pragma once

#include "mixed_context.cuh"
#include "tensor_tile.cuh"

/// Products of p×p matrices of halves: a small tile by one block, a thread's pairs of it, and how they are
/// read from and written to the matrices of a Layout.
namespace stiefel::cuda::STIEFEL_KERNELS {

using CoefficientTile = TensorTile<kSmallSide, kSmallSide, 1, 1, Second::kTransposed, 3>;
using Pairs = float2[CoefficientTile::kPairs];

/// The index of a tile's pair of sums in a p×p matrix of floats, and of halves.
__device__ inline int64_t float_index(const Layout& l, const TileIndex& where, int row, int column) {
  return static_cast<int64_t>(where.row * kSmallSide + row) * l.side + where.column * kSmallSide + column;
}
__device__ inline int64_t half_index(const Layout& l, const TileIndex& where, int row, int column) {
  return swizzled_index(where.row * kSmallSide + row, where.column * kSmallSide + column,
                        l.side / kBlockSide);
}

/// A thread's pairs of a p×p matrix, all on their way before the first is needed. `unit` is what 1 is in the
/// matrix of halves.
__device__ inline void read(Pairs& pairs, const CoefficientTile& tile, const float* from, const Layout& l,
                            const TileIndex& where) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    pairs[index] = *reinterpret_cast<const float2*>(from + float_index(l, where, row, column));
  });
}
__device__ inline void read(Pairs& pairs, const CoefficientTile& tile, const __half* from, const Layout& l,
                            const TileIndex& where, float unit = kUnit) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    const float2 pair =
        __half22float2(*reinterpret_cast<const __half2*>(from + half_index(l, where, row, column)));
    pairs[index] = make_float2(pair.x / unit, pair.y / unit);
  });
}
__device__ inline void write(const Pairs& pairs, const CoefficientTile& tile, float* to, const Layout& l,
                             const TileIndex& where) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    *reinterpret_cast<float2*>(to + float_index(l, where, row, column)) = pairs[index];
  });
}
__device__ inline void write(const Pairs& pairs, const CoefficientTile& tile, __half* to, const Layout& l,
                             const TileIndex& where, float scale = kUnit) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    *reinterpret_cast<__half2*>(to + half_index(l, where, row, column)) =
        __floats2half2_rn(pairs[index].x * scale, pairs[index].y * scale);
  });
}

/// What 1 is in the sums of a product of two matrices in units of kUnit.
constexpr float kSquaredUnit = kUnit * kUnit;

/// pairs[i] = rule(pairs[i], sum[i]) for both of every pair, the sum in its unit.
template <class Rule>
__device__ void combine(Pairs& pairs, const CoefficientTile& tile, Rule rule, float unit = kSquaredUnit) {
  tile.for_each_pair([&](int index, int, int, float first, float second) {
    pairs[index] = make_float2(rule(pairs[index].x, first / unit), rule(pairs[index].y, second / unit));
  });
}

/// pairs[i] = sum[i], in its unit.
__device__ inline void take_product(Pairs& pairs, const CoefficientTile& tile, float unit = kSquaredUnit) {
  tile.for_each_pair([&](int index, int, int, float first, float second) {
    pairs[index] = make_float2(first / unit, second / unit);
  });
}

/// pairs[i] = rule(pairs[i], others[i]) for both of every pair.
template <class Rule>
__device__ void combine(Pairs& pairs, const Pairs& others, Rule rule) {
#pragma unroll
  for (int i = 0; i < CoefficientTile::kPairs; ++i) {
    pairs[i] = make_float2(rule(pairs[i].x, others[i].x), rule(pairs[i].y, others[i].y));
  }
}

/// The product A Bᵀ of two p×p matrices of halves, a tile of it.
__device__ inline void multiply(CoefficientTile& tile, const Context& c, const Layout& l,
                                const TileIndex& where, int64_t a, int64_t b) {
  tile.clear();
  tile.add_product({{{c.square(l, a), where.row}}, c.square(l, b), where.column, 0, l.side / kBlockSide});
}

/// Turns a thread's pairs of a tile into its pairs of the tile's mirror image.
__device__ inline void mirror(Pairs& pairs, const CoefficientTile& tile) {
  constexpr int kLd = kSmallSide + 1;
  static_assert(kSmallSide * kLd * sizeof(float) <= CoefficientTile::kMemoryBytes,
                "it fits where the operands were");
  float* staged = reinterpret_cast<float*>(tile.memory());
  __syncthreads();
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    staged[row * kLd + column] = pairs[index].x;
    staged[row * kLd + column + 1] = pairs[index].y;
  });
  __syncthreads();
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    pairs[index] = make_float2(staged[column * kLd + row], staged[(column + 1) * kLd + row]);
  });
}

__device__ inline TileIndex mirror(const TileIndex& where) {
  return {where.matrix, where.column, where.row, 0};
}

/// Writes a tile of a symmetric matrix of halves and, where it is another, its mirror image. The pairs end as
/// those of the mirror image.
__device__ inline void write_both(Pairs& pairs, const CoefficientTile& tile, __half* to, const Layout& l,
                                  const TileIndex& where, float scale = kUnit) {
  write(pairs, tile, to, l, where, scale);
  if (where.row == where.column) return;
  mirror(pairs, tile);
  write(pairs, tile, to, l, mirror(where), scale);
}

}  // namespace stiefel::cuda::STIEFEL_KERNELS
