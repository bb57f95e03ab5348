#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "half_block.h"
#include "plain.h"

/// The plan of a mixed step: where every buffer of every matrix lies in one workspace, and which thread block
/// computes what. It depends on the shapes and on the number of multiprocessors alone. Plain C++ without a
/// header of CUDA's, so that it is tested where there is no GPU; the kernels read the same structs.
/// docs/cuda-kernels.md describes the buffers, their units, and which kernel writes which.
namespace stiefel::cuda {

constexpr int kTileSide = 128;  // of a tile of the thin products
constexpr int kSmallSide = 64;  // of a tile of the p×p products
static_assert(kTileSide % kBlockSide == 0 && kSmallSide % kBlockSide == 0, "tiles are whole blocks");

constexpr int64_t kAlignment = 256;  // of every buffer in the workspace and every list in the table, in bytes

constexpr int ceil_div(int value, int unit) { return (value + unit - 1) / unit; }
constexpr int round_up(int value, int unit) { return ceil_div(value, unit) * unit; }

/// The index of tile (row, column), column ≤ row, among the lower tiles of a symmetric matrix, row by row.
constexpr int lower_index(int row, int column) { return row * (row + 1) / 2 + column; }
constexpr int lower_count(int tiles) { return tiles * (tiles + 1) / 2; }

// ---- What the caller has ----

/// One matrix as rows: element (i, j), i < p ≤ n, of x lies at x[i·x_row + j·x_column], likewise m and g.
struct Matrix {
  float* x;
  float* m;
  const float* g;
  double* v;  ///< Cayley ADAM's second moment and step count; null for Cayley SGD
  double* k;
  int x_row, x_column, m_row, m_column, g_row, g_column;
};

struct Shape {
  int p;
  int n;
};

// ---- The table: read by the kernels, copied to the device as bytes ----

/// Where a product's partial sums lie: tiles of kTileSide×kTileSide floats, row-major, `slabs` of them in a
/// row for each tile of the result, which is their sum. A symmetric product has its lower tiles only.
struct Partials {
  int64_t first;  ///< the first slab among all slabs
  int slabs;
  int symmetric;

  /// The first slab of tile (row, column) of a product with `tiles` tiles per side.
  constexpr int64_t slab(int row, int column, int tiles) const {
    const int64_t tile = symmetric ? lower_index(row, column) : row * tiles + column;
    return first + tile * slabs;
  }
};

/// Which of the p×n matrices of halves.
enum Piece : int { kH1 = 0, kH2 = 1, kM1 = 2 };
constexpr int kPieces = 3;

/// One matrix. Offsets count bytes from the start of the workspace; matrices of halves are swizzled
/// (half_block.h), matrices of floats are row-major with `side` entries per row.
struct Layout {
  int p, n;
  int ld;                                         ///< n rounded up to whole blocks
  int side;                                       ///< p rounded up to whole blocks
  int first_row;                                  ///< its first row among the rows of all matrices
  int first_pair;                                 ///< its first pair of small tiles
  int first_thin;                                 ///< its first thin tile
  int thin_count;                                 ///< how many thin tiles it has
  int64_t pieces[kPieces];                        ///< halves, side×ld; indexed by Piece
  int64_t sigma, st, omega, z, r, t, b, q, f, c;  ///< halves, side×side
  int64_t e, t_wide, t_squared, f_part;           ///< floats, side×side
  Partials drift, rest, first_overlap;            ///< H₁H₁ᵀ, H₂H₁ᵀ, M₁H₁ᵀ
  Partials overlap, gram;                         ///< H₁M₁ᵀ, M₁M₁ᵀ
};

/// Where the p×p matrices of Cayley Muon lie: in buffers of a Layout that hold nothing else in the meantime
/// (docs/cuda-kernels.md has the times).
struct PolarLayout {
  int64_t s, s_rest;   ///< halves: S in two pieces
  int64_t a;           ///< halves: A, the Gram matrix between the rounds of the polynomial
  int64_t factor;      ///< halves: P, a round's factor of the root
  int64_t k, other_k;  ///< halves: the root K, and where it lies after every second round before
  int64_t product;     ///< halves: AP, and later KR
  int64_t omega;       ///< halves: Ω_D
  int64_t turn;        ///< halves: C/τ − I, before K
};

constexpr PolarLayout polar_layout(const Layout& l) {
  PolarLayout at{};
  at.s = l.z;
  at.s_rest = l.sigma;
  at.a = l.c;
  at.factor = l.b;
  at.k = l.f;
  at.other_k = l.t_squared;
  at.product = l.q;
  at.omega = l.st;
  at.turn = l.b;
  return at;
}

/// How many halves lie between the starts of two matrices of halves. Both are in the one workspace, in
/// whichever order; the result may be negative.
constexpr int64_t halves_between(int64_t from, int64_t to) { return (to - from) / 2; }

/// Two tiles of products A Bᵀ of pieces that have the second operand's columns in common, over the blocks
/// [from, to) of the inner dimension: the work of one thread block.
struct Product {
  struct Part {
    int a;         ///< the Piece
    int row;       ///< in tiles
    int own_runs;  ///< how many slabs it writes; 1 where all runs are added up together
    int pad;
    int64_t slab;  ///< the first slab it writes; kNoSlab where there is no second tile
  };
  static constexpr int64_t kNoSlab = -1;
  static constexpr int kNoRow = 1 << 20;  ///< beyond every matrix: no block of A exists there

  int matrix;
  int b;       ///< the Piece
  int column;  ///< in tiles
  int from, to;
  int runs;  ///< the range is taken in this many runs
  Part parts[2];
};

/// A tile of any other matrix; row and column count tiles.
struct TileIndex {
  int matrix;
  int row, column;
  int pad;
};

/// One row of a matrix.
struct RowIndex {
  int matrix;
  int row;
};

// ---- The workspace: what a step finds out ----

/// The sums of squares of a row, by split_rows.
struct alignas(16) RowSums {
  float x2, g2, m2;     ///< ‖x‖², ‖g‖², ‖m‖²
  float inverse_scale;  ///< 1/scale of its M₁ before the projection
};

/// The squared norms of a pair of small tiles (a tile and its mirror image). find_normal_part writes e2 and
/// sigma2, find_tangent_part omega2 and z2, and find_gram_outside t2 in Cayley Muon's step.
struct alignas(16) PairNorms {
  float e2;          ///< of E
  float sigma2;      ///< of Σ
  float omega2, z2;  ///< of Ω and Z in units of μ
  float t2;          ///< of the tangent part's Gram matrix, in units of μ²
  float pad[3];
};

/// What is found out about a matrix: by find_normal_part, and from `r` on by find_tangent_part.
struct Decision {
  double g2;      ///< ‖G‖²
  float m_scale;  ///< M₁ = m_scale·M after the projection, a power of two
  int sound;      ///< gradient and momentum are finite
  double r;       ///< Cayley ADAM's r, 1 for the others
  int frozen;     ///< it must stay in place: nothing is written
  float normal;   ///< Cayley Muon: ‖Σ‖, the length of the normal part that the projection takes off
};

/// What find_gram_outside finds out, or in Cayley Muon's step the first launch of find_gram_root. Every block
/// of it reads the Decision and computes the same StepSize; one per matrix writes it. The two are apart so
/// that no block reads what another writes in the same launch.
struct StepSize {
  float tau;  ///< −α or −α/r
  float theta;  ///< τ in units of the direction: τμ, μ a power of two at or above ‖M₁‖; τ for Cayley Muon
  float mu;
  float f_scale, c_scale;
  float apart;       ///< what M₁ is added with in float32, apart from C: τ, and 0 for Cayley Muon
  float shrink;      ///< Cayley Muon: 1/‖T‖, T in units of μ²; 0 where T is only rounding
  float root_scale;  ///< Cayley Muon: √shrink
};

struct State {
  Decision decision;
  StepSize size;
};

/// Makes the plan for a list of shapes: once, used for every step on them.
class MixedPlan {
 public:
  /// A list in the table: `count` entries, `offset` bytes from its start.
  template <class Entry>
  struct List {
    size_t offset = 0;
    int count = 0;
  };
  /// One entry per thread block of the launches that take it, except `layouts`, which has one per matrix.
  struct Lists {
    List<Layout> layouts;
    List<RowIndex> rows;            ///< padding rows included
    List<Product> first_products;   ///< H₁H₁ᵀ, H₂H₁ᵀ, M₁H₁ᵀ
    List<Product> second_products;  ///< H₁M₁ᵀ, M₁M₁ᵀ
    List<TileIndex> pairs;          ///< small tiles, row ≥ column
    List<TileIndex> thin;           ///< tiles of p×n, two side by side per entry: `column` is even
    List<TileIndex> squares;        ///< small tiles, all
  };
  /// Where the arrays of all matrices together lie in the workspace, in bytes.
  struct Shared {
    int64_t matrices;  ///< Matrix per matrix
    int64_t states;    ///< State per matrix
    int64_t rows;      ///< RowSums per row
    int64_t thin;      ///< float per thin tile: ‖M₁‖² of it
    int64_t pairs;     ///< PairNorms per pair of small tiles
    int64_t slabs;     ///< the partial sums; the second products reuse those of the first
  };

  /// `processors`: multiprocessors of the device, at least 1. Every shape has 1 ≤ p ≤ n. Throws
  /// std::invalid_argument otherwise.
  ///
  /// `whole`: the shapes of the step that this one is a part of. Sums over n are cut as in that step, so that
  /// a matrix ends with the same bits as there. Empty: this is the whole step.
  MixedPlan(const std::vector<Shape>& shapes, int processors, const std::vector<Shape>& whole = {});

  /// Host memory, which the caller copies to the device, 256-byte aligned there.
  const std::vector<char>& table() const { return table_; }
  const Lists& lists() const { return lists_; }
  const Shared& shared() const { return shared_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  size_t widest_row_bytes() const { return widest_row_bytes_; }
  int matrices() const { return lists_.layouts.count; }

  /// Whether the launches are so small that the pauses between them count: all small tiles run at once.
  bool has_short_launches() const { return has_short_launches_; }

 private:
  std::vector<char> table_;
  Lists lists_;
  Shared shared_ = {};
  size_t workspace_bytes_ = 0;
  size_t widest_row_bytes_ = 0;
  bool has_short_launches_ = false;
};

static_assert(is_plain<Matrix, 64>);
static_assert(offsetof(Matrix, v) == 24 && offsetof(Matrix, x_row) == 40 && offsetof(Matrix, g_column) == 60);
static_assert(is_plain<Partials, 16>);
static_assert(offsetof(Partials, slabs) == 8 && offsetof(Partials, symmetric) == 12);
static_assert(is_plain<Layout, 248>);
static_assert(offsetof(Layout, pieces) == 32 && offsetof(Layout, sigma) == 56 && offsetof(Layout, c) == 128 &&
              offsetof(Layout, e) == 136 && offsetof(Layout, drift) == 168 && offsetof(Layout, gram) == 232);
static_assert(is_plain<Product::Part, 24> && is_plain<Product, 72>);
static_assert(offsetof(Product::Part, slab) == 16 && offsetof(Product, parts) == 24);
static_assert(is_plain<TileIndex, 16, 4> && is_plain<RowIndex, 8, 4>);
static_assert(is_plain<RowSums, 16, 16> && is_plain<PairNorms, 32, 16>,
              "kernels read them as vectors of four");
static_assert(offsetof(RowSums, inverse_scale) == 12 && offsetof(PairNorms, t2) == 16);
static_assert(is_plain<Decision, 32> && is_plain<StepSize, 32, 4> && is_plain<State, 64>);
static_assert(offsetof(State, size) == 32);
static_assert(kAlignment % alignof(RowSums) == 0 && kAlignment % alignof(State) == 0);

}  // namespace stiefel::cuda
