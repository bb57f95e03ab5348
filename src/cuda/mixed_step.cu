#include "mixed_step.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "mixed_context.cuh"
#include "mixed_kernels.h"

// The step in row form: x is p×n, x xᵀ = I, and M has the gradient's sign, so X moves along τM with τ < 0.
//
// Two things must be accurate for X to stay orthonormal: the drift E = x xᵀ − I, and the normal part Z of the
// direction that is really applied. All else only steers. So x = H₁ + H₂ in two half-precision pieces, 22
// bits, give E; the direction is M₁, the rounding of the projected momentum to halves, and its overlap with x
// is measured after the rounding. Everything that is stored as halves is scaled by powers of two, so that
// nothing overflows and nothing that matters is lost below.
//
// After the places of the matrices are written to the device, each line is one launch:
//
//   1  M ← decay·M + gain·G, not yet written; H₁, H₂, M₁ of it; sums of squares of rows
//   2  H₁H₁ᵀ, H₂H₁ᵀ, M₁H₁ᵀ
//   3  E, with its diagonal from the sums of squares; Σ = ½(S + Sᵀ), S = x Mᵀ
//   4  from ‖G‖ and ‖E‖, whether the matrix may move; Cayley ADAM's v, k and r
//   5  M ← M − Σ H₁, written; M₁ of it: from here on M₁ is the direction
//   6  S = H₁M₁ᵀ, T = M₁M₁ᵀ
//   7  Ω = ½(S − Sᵀ), Z = ½(S + Sᵀ)
//   8  R = T − SᵀS, the Gram matrix of what M₁ has outside span x; T ← R − Ω², that of its tangent part;
//      ‖W‖² = 2 tr T − ‖Ω‖², α = min(l, 2q/(‖W‖ + ε))
//   9  ΩR, T², and what takes Z off
//  10  F and C. With s = 2 the loop of the paper ends, in closed form, at
//          C = τI + (τ²/2)Ω − (τ³/4)T,   F = −(τ²/2)R − (τ³/4)RΩ      (tall notation; here their transposes)
//      and its iterate Y has YᵀY − I = V = −(τ⁴/4)A₄ + …, A₄ = XᵀW⁴X = T² − ΩRΩ, so P = −½V = (τ⁴/8)A₄ makes
//      it orthonormal: F ← F + P − CZ − ½E, C ← C + τP
//  11  x ← x + τM₁ + F H₁ + (C − τI) M₁

namespace stiefel::cuda {

namespace {

constexpr int64_t kAlign = 256;
constexpr int kPointersAtOnce = 60;

/// Pointers as a kernel's parameters: they reach the device without a copy, and a captured step keeps them.
struct Pointers {
  int first;
  int count;
  Matrix matrices[kPointersAtOnce];
};

__global__ void write_pointers(Pointers pointers, Matrix* to) {
  if (threadIdx.x < pointers.count) to[pointers.first + threadIdx.x] = pointers.matrices[threadIdx.x];
}

/// Hands out aligned places.
struct Cursor {
  int64_t at = 0;

  int64_t take(int64_t bytes) {
    const int64_t here = at;
    at += (bytes + kAlign - 1) / kAlign * kAlign;
    return here;
  }
  template <class Entry>
  int64_t take_entries(int count) {
    return take(static_cast<int64_t>(sizeof(Entry)) * count);
  }
};

template <class Entry>
size_t append(std::vector<char>& table, const std::vector<Entry>& entries) {
  const size_t at = (table.size() + kAlign - 1) / kAlign * kAlign;
  table.resize(at + entries.size() * sizeof(Entry));
  if (!entries.empty()) std::memcpy(table.data() + at, entries.data(), entries.size() * sizeof(Entry));
  return at;
}

/// A tile of a Gram product before it has a place in the list.
struct GramTile {
  int a, row;
  int64_t slab;  // of its first part
  int runs;
};

/// Adds the tiles of A Bᵀ in one column.
void add_tiles(std::vector<GramTile>& tiles, const Partials& sums, int a, int column, int count, int runs) {
  for (int row = sums.symmetric ? column : 0; row < count; ++row) {
    const int64_t tile = sums.symmetric ? row * (row + 1) / 2 + column : row * count + column;
    tiles.push_back({a, row, sums.first + tile * sums.slabs, runs});
  }
}

/// Reserves the slabs of a product: `parts` cuts of the inner dimension, each of `runs` runs.
Partials reserve(int64_t& slab, int tiles, bool symmetric, int parts, int runs) {
  const Partials sums{slab, parts * runs, symmetric ? 1 : 0};
  slab += static_cast<int64_t>(symmetric ? tiles * (tiles + 1) / 2 : tiles * tiles) * sums.slabs;
  return sums;
}

/// The tiles of one column, two by two, for every part of the inner dimension.
void pair_up(std::vector<Product>& products, const std::vector<GramTile>& tiles, int matrix, int b,
             int column, int blocks, int parts) {
  const auto part_of = [&](size_t i, int part) -> Product::Part {
    if (i >= tiles.size()) return {tiles[0].a, 1 << 20, 1, 0, -1};
    return {tiles[i].a, tiles[i].row, tiles[i].runs, 0,
            tiles[i].slab + static_cast<int64_t>(part) * tiles[i].runs};
  };
  for (int part = 0; part < parts; ++part) {
    for (size_t i = 0; i < tiles.size(); i += 2) {
      const auto first = part_of(i, part), second = part_of(i + 1, part);
      products.push_back({matrix,
                          b,
                          column,
                          blocks * part / parts,
                          blocks * (part + 1) / parts,
                          std::max(first.own_runs, second.own_runs),
                          {first, second}});
    }
  }
}

/// Long ones first, so that none is left for the end.
void sort_by_length(std::vector<Product>& products) {
  std::stable_sort(products.begin(), products.end(),
                   [](const Product& a, const Product& b) { return a.to - a.from > b.to - b.from; });
}

// H₁H₁ᵀ is added up in runs of at most this many blocks: off the diagonal the tensor cores' truncation then
// stays at 5e-6 instead of 2e-5 (Frobenius, 640×5760).
constexpr int kLongestRun = 18;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// How many blocks of the inner dimension a pair of tiles should take at most. Few parts leave processors
/// idle at the end, many cost their sums: the choice that would finish first, if every processor took the
/// next longest as soon as it is free. `tiles_in(tiles, column)` tells how many tiles a column of a matrix
/// with so many tiles a side has.
template <class TilesIn>
int best_part(const std::vector<Shape>& shapes, TilesIn tiles_in) {
  constexpr size_t kProcessors = 132;
  constexpr int kOverhead =
      8;  // of a pair beside its rounds, in rounds: the pipeline's start, the sums' way out and in
  int best = 6;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int most : {6, 8, 12, 16, 24, 32, 48, 64, 96}) {
    std::map<int, int, std::greater<int>> lengths;  // how many pairs of each length
    for (const auto& shape : shapes) {
      const int tiles = ceil_div(shape.p, kBlock), blocks = ceil_div(shape.n, kDepth),
                parts = ceil_div(blocks, most);
      for (int column = 0; column < tiles; ++column) {
        lengths[ceil_div(blocks, parts)] += parts * ceil_div(tiles_in(tiles, column), 2);
      }
    }
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<int64_t>> busy(
        std::greater<int64_t>(), std::vector<int64_t>(kProcessors, 0));
    int64_t end = 0;
    for (const auto& [length, count] : lengths) {
      for (int i = 0; i < count; ++i) {
        const int64_t until = busy.top() + length + kOverhead;
        busy.pop();
        busy.push(until);
        end = std::max(end, until);
      }
    }
    if (end < least) {
      least = end;
      best = most;
    }
  }
  return best;
}

/// The order in which blocks are given out: those that take long must not be left for the end.
std::vector<int> largest_first(const std::vector<Shape>& shapes) {
  std::vector<int> order(shapes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto &left = shapes[static_cast<size_t>(a)], &right = shapes[static_cast<size_t>(b)];
    return std::make_pair(left.p, left.n) > std::make_pair(right.p, right.n);
  });
  return order;
}

}  // namespace

MixedPlan::MixedPlan(const std::vector<Shape>& shapes) {
  std::vector<Layout> layouts(shapes.size());
  std::vector<RowPlace> rows;
  std::vector<Product> first, second;
  std::vector<Place> pairs, thin, squares;
  const int most_first = best_part(shapes, [](int tiles, int column) { return 3 * tiles - column; });
  const int most_second = best_part(shapes, [](int tiles, int column) { return 2 * tiles - column; });
  Cursor cursor;
  int64_t slab_first = 0, slab_second = 0;
  for (const int matrix : largest_first(shapes)) {
    const auto [p, n] = shapes[static_cast<size_t>(matrix)];
    Layout l{};
    l.p = p;
    l.n = n;
    l.ld = round_up(n, kDepth);
    l.side = round_up(p, kSmall);
    l.row = static_cast<int>(rows.size());
    l.pair = static_cast<int>(pairs.size());
    widest_row_ = std::max(widest_row_, static_cast<size_t>(n) * sizeof(float));
    for (auto& piece : l.halves) piece = cursor.take(int64_t{2} * l.side * l.ld);
    const int64_t squared = int64_t{l.side} * l.side;
    for (auto* half : {&l.sigma, &l.st, &l.omega, &l.z, &l.r, &l.t, &l.b, &l.q, &l.f, &l.c}) {
      *half = cursor.take(2 * squared);
    }
    for (auto* wide : {&l.e, &l.t_wide, &l.t_squared, &l.f_part}) *wide = cursor.take(4 * squared);
    for (int i = 0; i < l.side; ++i) rows.push_back({matrix, i});

    const int tiles = ceil_div(p, kBlock), blocks = l.ld / kDepth;
    const int parts_first = ceil_div(blocks, most_first), parts_second = ceil_div(blocks, most_second);
    const int runs = ceil_div(ceil_div(blocks, parts_first), kLongestRun);
    l.drift = reserve(slab_first, tiles, true, parts_first, runs);
    l.rest = reserve(slab_first, tiles, false, parts_first, 1);
    l.first_overlap = reserve(slab_first, tiles, false, parts_first, 1);
    l.overlap = reserve(slab_second, tiles, false, parts_second, 1);
    l.gram = reserve(slab_second, tiles, true, parts_second, 1);
    for (int column = 0; column < tiles; ++column) {
      std::vector<GramTile> list;
      add_tiles(list, l.drift, kH1, column, tiles, runs);
      add_tiles(list, l.rest, kH2, column, tiles, 1);
      add_tiles(list, l.first_overlap, kM1, column, tiles, 1);
      pair_up(first, list, matrix, kH1, column, blocks, parts_first);
      list.clear();
      add_tiles(list, l.overlap, kH1, column, tiles, 1);
      add_tiles(list, l.gram, kM1, column, tiles, 1);
      pair_up(second, list, matrix, kM1, column, blocks, parts_second);
    }
    const int sides = l.side / kSmall;
    for (int i = 0; i < sides; ++i) {
      for (int j = 0; j <= i; ++j) pairs.push_back({matrix, i, j, 0});
      for (int j = 0; j < sides; ++j) squares.push_back({matrix, i, j, 0});
    }
    layouts[static_cast<size_t>(matrix)] = l;
  }
  // Two tiles side by side at a time.
  for (size_t matrix = 0; matrix < shapes.size(); ++matrix) {
    auto& l = layouts[matrix];
    l.thin = static_cast<int>(thin.size());
    for (int j = 0; j < l.n; j += 2 * kBlock) {
      for (int i = 0; i < ceil_div(l.p, kBlock); ++i)
        thin.push_back({static_cast<int>(matrix), i, j / kBlock, 0});
    }
    l.thins = static_cast<int>(thin.size()) - l.thin;
  }
  sort_by_length(first);
  sort_by_length(second);

  const auto count = [](const auto& list) { return static_cast<int>(list.size()); };
  matrices_ = count(layouts);
  append(table_, layouts);
  rows_ = {append(table_, rows), count(rows)};
  first_ = {append(table_, first), count(first)};
  second_ = {append(table_, second), count(second)};
  pairs_ = {append(table_, pairs), count(pairs)};
  thin_ = {append(table_, thin), count(thin)};
  squares_ = {append(table_, squares), count(squares)};

  // What belongs to all, in the order in which step() takes it.
  shared_ = cursor.at;
  cursor.take_entries<Matrix>(matrices_);
  cursor.take_entries<State>(matrices_);
  cursor.take_entries<float4>(rows_.count);
  cursor.take_entries<float>(thin_.count);
  cursor.take_entries<float4>(pairs_.count);
  cursor.take(std::max(slab_first, slab_second) * kBlock * kBlock * static_cast<int64_t>(sizeof(float)));
  workspace_bytes_ = static_cast<size_t>(cursor.at);
}

namespace {

/// A list of the table in device memory.
template <class Entry, class List>
Blocks<Entry> blocks_of(const void* table, const List& list) {
  return {reinterpret_cast<const Entry*>(static_cast<const char*>(table) + list.offset), list.count};
}

/// Lets the kernels have their shared memory, once a device.
cudaError_t allow_all() {
  static thread_local int allowed = -1;
  int device = 0;
  if (const auto error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (allowed == device) return cudaSuccess;
  for (const auto error :
       {allow_split_rows(), allow_gram_products(), allow_projection(), allow_coefficients(), allow_move()}) {
    if (error != cudaSuccess) return error;
  }
  allowed = device;
  return cudaSuccess;
}

}  // namespace

cudaError_t MixedPlan::step(const Matrix* matrices, const Recipe& recipe, const void* table, void* workspace,
                            cudaStream_t stream) const {
  if (matrices_ == 0) return cudaSuccess;
  if (const auto error = allow_all(); error != cudaSuccess) return error;
  char* memory = static_cast<char*>(workspace);
  Cursor cursor{shared_};
  Context c{};
  c.layouts = static_cast<const Layout*>(table);
  c.workspace = memory;
  c.matrices = reinterpret_cast<Matrix*>(memory + cursor.take_entries<Matrix>(matrices_));
  c.states = reinterpret_cast<State*>(memory + cursor.take_entries<State>(matrices_));
  c.rows = reinterpret_cast<float4*>(memory + cursor.take_entries<float4>(rows_.count));
  c.thin = reinterpret_cast<float*>(memory + cursor.take_entries<float>(thin_.count));
  c.pairs = reinterpret_cast<float4*>(memory + cursor.take_entries<float4>(pairs_.count));
  c.slabs = reinterpret_cast<float*>(memory + cursor.at);
  const auto rows = blocks_of<RowPlace>(table, rows_);
  const auto first = blocks_of<Product>(table, first_);
  const auto second = blocks_of<Product>(table, second_);
  const auto pairs = blocks_of<Place>(table, pairs_);
  const auto thin = blocks_of<Place>(table, thin_);
  const auto squares = blocks_of<Place>(table, squares_);

  for (int at = 0; at < matrices_; at += kPointersAtOnce) {
    Pointers pointers{at, std::min(kPointersAtOnce, matrices_ - at), {}};
    std::copy_n(matrices + at, pointers.count, pointers.matrices);
    write_pointers<<<1, 64, 0, stream>>>(pointers, c.matrices);
  }
  split_rows(c, rows, recipe, widest_row_, stream);
  multiply_pieces(c, first, stream);
  find_normal_part(c, pairs, stream);
  decide_moves(c, matrices_, recipe, stream);
  project(c, thin, recipe, stream);
  multiply_pieces(c, second, stream);
  find_tangent_part(c, pairs, stream);
  find_gram_outside(c, pairs, recipe, stream);
  multiply_coefficients(c, squares, stream);
  finish_coefficients(c, pairs, stream);
  move(c, thin, stream);
  return cudaGetLastError();
}

}  // namespace stiefel::cuda
