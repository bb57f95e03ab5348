#pragma once

#include <cstdint>

#include "mixed_step.h"

/// Where the mixed step keeps its matrices, and which block does what. Plain data, read on the host and the
/// device.
namespace stiefel::cuda {

constexpr int kBlock = 128;  // the side of a tile of the thin products
constexpr int kSmall = 64;   // the side of a tile of the p×p products

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

/// A product's partial sums: tile after tile of kBlock×kBlock floats, `slabs` of them for each tile of the
/// result. A symmetric product has its lower tiles only.
struct Partials {
  int64_t first;  ///< the first tile
  int slabs;
  int symmetric;
};

/// One matrix. Offsets count bytes from the start of the workspace; matrices of halves lie as tensor_tile.cuh
/// says.
struct Layout {
  int p, n;
  int ld;  ///< n and p rounded up to whole blocks
  int side;
  int row;   ///< its first row among the rows of all
  int pair;  ///< its first pair of small tiles
  int thin;  ///< its first tile of the thin products p×n, and how many
  int thins;
  int64_t halves[3];                              ///< H₁, H₂ and M₁, side×ld
  int64_t sigma, st, omega, z, r, t, b, q, f, c;  ///< halves, side×side
  int64_t e, t_wide, t_squared, f_part;           ///< floats, side×side
  Partials drift, rest, first_overlap;            ///< H₁H₁ᵀ, H₂H₁ᵀ, M₁H₁ᵀ
  Partials overlap, gram;                         ///< H₁M₁ᵀ, M₁M₁ᵀ
};

/// Which of `halves`.
enum Piece : int { kH1 = 0, kH2 = 1, kM1 = 2 };

/// Two tiles of products A Bᵀ of pieces that have the second operand's columns in common, over the blocks
/// [from, to) of the inner dimension.
struct Product {
  struct Part {
    int a;
    int row;       ///< in tiles
    int own_runs;  ///< 1 where the runs are added up together
    int pad;
    int64_t slab;  ///< where its sums go, in tiles, a slab a run; -1 where there is no second tile
  };
  int matrix;
  int b;
  int column;  ///< in tiles
  int from, to;
  int runs;  ///< the range is taken in this many runs
  Part parts[2];
};

/// A tile of anything else.
struct Place {
  int matrix;
  int row, column;
  int pad;
};

/// What a step finds out about a matrix.
struct State {
  double r;       ///< Cayley ADAM's r, 1 for Cayley SGD
  float m_scale;  ///< M₁ = m_scale·M, a power of two
  int kept;       ///< it must stay in place: nothing is written
  float tau;      ///< −α or −α/r
  float theta;    ///< τμ, μ a power of two at or above ‖M‖
  float f_scale, c_scale;
};

}  // namespace stiefel::cuda
