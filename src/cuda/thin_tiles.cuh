#pragma once

#include "mixed_context.cuh"
#include "tensor_tile.cuh"

/// Tiles of p×n matrices: coefficients times pieces, and what is done with the sums entry by entry.
namespace stiefel::cuda::STIEFEL_KERNELS {

// Two neighboring tiles that share the rows of the coefficients.
using ThinTile = TensorTile<kTileSide, kTileSide, 1, 2, Second::kPlain, 4>;

// The sums of so many rows of a tile at a time fit where their operands were.
constexpr int kStagedLd = kTileSide + 4;
constexpr int staged_bytes(int rows) { return ThinTile::kTeams * rows * kStagedLd * 4; }
constexpr int kStagedRows = staged_bytes(kTileSide) <= ThinTile::kMemoryBytes ? kTileSide : kTileSide / 2;
static_assert(staged_bytes(kStagedRows) <= ThinTile::kMemoryBytes && kStagedRows % 64 == 0);

/// What a thread block of a kernel over thin tiles works on, and where the team of this thread begins.
struct ThinWork {
  TileIndex index;
  const Layout& l;
  Matrix a;

  __device__ ThinWork(const Context& c, const TileIndex& where)
      : index(where), l(c.layouts[where.matrix]), a(c.matrices[where.matrix]) {}

  /// The first row and column of the team's tile.
  __device__ int top() const { return index.row * kTileSide; }
  __device__ int left() const { return (index.column + ThinTile::team()) * kTileSide; }

  /// Blocks side by side in a piece.
  __device__ int across() const { return l.ld / kBlockSide; }

  /// The producer's job: p×p coefficients times H₁.
  __device__ ThinTile::Job times_h1(const Context& c, int64_t coefficients) const {
    return {{{c.square(l, coefficients), index.row * kBlocksPerTile}},
            c.piece(l, kH1),
            index.column * kBlocksPerTile,
            0,
            l.side / kBlockSide};
  }
  /// The same, and `more` coefficients times M₁ added to it.
  __device__ ThinTile::Job times_h1_and_m1(const Context& c, int64_t coefficients, int64_t more) const {
    return {{{c.square(l, coefficients), index.row * kBlocksPerTile}},
            c.piece(l, kH1),
            index.column * kBlocksPerTile,
            0,
            2 * l.side / kBlockSide,
            l.side / kBlockSide,
            halves_between(coefficients, more),
            halves_between(l.pieces[kH1], l.pieces[kM1])};
  }

 private:
  static constexpr int kBlocksPerTile = kTileSide / kBlockSide;
};

/// Puts the team's sums of kStagedRows rows from `top` on into shared memory, where whole rows can be read.
__device__ inline float* stage(const ThinTile& tile, int top) {
  float* staged = reinterpret_cast<float*>(tile.memory()) + ThinTile::team() * kStagedRows * kStagedLd;
  ThinTile::sync();
  tile.for_each_pair(top, top + kStagedRows, [&](int, int row, int column, float first, float second) {
    *reinterpret_cast<float2*>(staged + (row - top) * kStagedLd + column) = make_float2(first, second);
  });
  ThinTile::sync();
  return staged;
}

/// Four neighbors.
__device__ inline float4& quad(float* at) { return *reinterpret_cast<float4*>(at); }
__device__ inline float4 quad(const __half* at) {
  const uint2 raw = *reinterpret_cast<const uint2*>(at);
  const float2 first = __half22float2(reinterpret_cast<const __half2&>(raw.x));
  const float2 second = __half22float2(reinterpret_cast<const __half2&>(raw.y));
  return make_float4(first.x, first.y, second.x, second.y);
}

/// The part of a float matrix that the staged rows of a tile cover. Where its rows can be read four entries
/// at a time they are; else it is walked one entry at a time, lanes side by side along the memory.
struct Window {
  float* data;
  int64_t row, column;
  int rows, columns;  // that exist, at most kStagedRows and kTileSide; none where 0 or less
  bool by_quads;      // alike in all tiles of a matrix, since all threads of a block meet on the way

  __device__ Window(float* matrix, int row_step, int column_step, int first_row, int first_column,
                    const Layout& l)
      : data(matrix + static_cast<int64_t>(first_row) * row_step +
             static_cast<int64_t>(first_column) * column_step),
        row(row_step),
        column(column_step),
        rows(min(l.p - first_row, kStagedRows)),
        columns(min(l.n - first_column, kTileSide)),
        by_quads(column == 1 && (row | l.n) % 4 == 0 && (reinterpret_cast<uintptr_t>(matrix) & 15) == 0) {}

  __device__ float* at(int i, int j) const { return data + i * row + j * column; }

  /// Brings it into the second-level cache.
  __device__ void prefetch() const {
    if (column != 1) return;
    constexpr int kLine = 32;  // floats
    for (int n = ThinTile::thread(); n < rows * (kTileSide / kLine); n += kTeamThreads) {
      const int j = n % (kTileSide / kLine) * kLine;
      if (j < columns) ptx::prefetch_l2(at(n / (kTileSide / kLine), j));
    }
  }
};

constexpr int kQuadsAtOnce = 8;
constexpr int kSinglesAtOnce = 16;

/// Calls visit(u, i, j) for a thread's quads of the rows base, base + 4, …, at most kQuadsAtOnce of them.
template <class Visit>
__device__ void for_each_quad(const Window& window, int base, Visit visit) {
  const int j = ThinTile::thread() % 32 * 4;
#pragma unroll
  for (int u = 0; u < kQuadsAtOnce; ++u) {
    const int i = base + u * 4;
    if (i < window.rows && j < window.columns) visit(u, i, j);
  }
}

/// Calls visit(u, i, j) for a thread's share of the single entries from number `first` on, at most
/// kSinglesAtOnce.
template <class Visit>
__device__ void for_each_single(const Window& window, int first, Visit visit) {
#pragma unroll
  for (int u = 0; u < kSinglesAtOnce; ++u) {
    const int at = first + u * kTeamThreads + ThinTile::thread();
    const int outer = at / kTileSide, inner = at % kTileSide;
    const int i = window.column == 1 ? outer : inner, j = window.column == 1 ? inner : outer;
    if (i < window.rows && j < window.columns) visit(u, i, j);
  }
}
__device__ inline int singles_of(const Window& window) {
  return kTileSide * max(0, window.column == 1 ? window.rows : window.columns);
}

}  // namespace stiefel::cuda::STIEFEL_KERNELS
