#include "mixed_plan.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace stiefel::cuda {

namespace {

constexpr int64_t align_up(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Hands out aligned ranges of the workspace, one after the other.
struct WorkspaceCursor {
  int64_t at = 0;

  int64_t take(int64_t bytes) {
    const int64_t here = at;
    at += align_up(bytes);
    return here;
  }
  template <class Entry>
  int64_t take_entries(int count) {
    return take(static_cast<int64_t>(sizeof(Entry)) * count);
  }
};

/// Appends a list to the table.
template <class Entry>
MixedPlan::List<Entry> append(std::vector<char>& table, const std::vector<Entry>& entries) {
  static_assert(std::is_trivially_copyable_v<Entry>);
  const auto at = static_cast<size_t>(align_up(static_cast<int64_t>(table.size())));
  table.resize(at + entries.size() * sizeof(Entry));
  if (!entries.empty()) std::memcpy(table.data() + at, entries.data(), entries.size() * sizeof(Entry));
  return {at, static_cast<int>(entries.size())};
}

/// A tile of a Gram product before it is assigned to a thread block.
struct PlannedTile {
  int a, row;
  int64_t slab;  // of its first part
  int runs;
};

/// Adds the tiles of A Bᵀ in one column.
void add_column(std::vector<PlannedTile>& tiles, const Partials& sums, int a, int column, int count,
                int runs) {
  for (int row = sums.symmetric ? column : 0; row < count; ++row) {
    tiles.push_back({a, row, sums.slab(row, column, count), runs});
  }
}

/// Reserves the slabs of a product: `parts` cuts of the inner dimension, each of `runs` runs.
Partials reserve_slabs(int64_t& slab, int tiles, bool symmetric, int parts, int runs) {
  const Partials sums{slab, parts * runs, symmetric ? 1 : 0};
  slab += static_cast<int64_t>(symmetric ? lower_count(tiles) : tiles * tiles) * sums.slabs;
  return sums;
}

/// The tiles of one column, two by two, for every part of the inner dimension.
void pair_up(std::vector<Product>& products, const std::vector<PlannedTile>& tiles, int matrix, int b,
             int column, int blocks, int parts) {
  const auto part_of = [&](size_t i, int part) -> Product::Part {
    if (i >= tiles.size()) return {tiles[0].a, Product::kNoRow, 1, 0, Product::kNoSlab};
    return {tiles[i].a, tiles[i].row, tiles[i].runs, 0,
            tiles[i].slab + static_cast<int64_t>(part) * tiles[i].runs};
  };
  const auto start_of = [&](int part) { return static_cast<int>(int64_t{blocks} * part / parts); };
  for (int part = 0; part < parts; ++part) {
    for (size_t i = 0; i < tiles.size(); i += 2) {
      const auto first = part_of(i, part), second = part_of(i + 1, part);
      products.push_back({matrix,
                          b,
                          column,
                          start_of(part),
                          start_of(part + 1),
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

/// How many blocks of the inner dimension a pair of tiles should take at most. Few parts leave processors
/// idle at the end, many cost their sums: the choice that would finish first, if every processor took the
/// next longest as soon as it is free. `tiles_in(tiles, column)` is the number of tiles in a column of a
/// matrix with so many tiles per side.
template <class TilesIn>
int best_part(const std::vector<Shape>& shapes, int processors, TilesIn tiles_in) {
  // Of a pair besides its rounds, in rounds: the pipeline's start, writing the sums and reading them again.
  constexpr int kOverhead = 8;
  int best = 6;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int most : {6, 8, 12, 16, 24, 32, 48, 64, 96}) {
    std::map<int, int, std::greater<int>> lengths;  // how many pairs of each length
    for (const auto& shape : shapes) {
      const int tiles = ceil_div(shape.p, kTileSide), blocks = ceil_div(shape.n, kBlockSide),
                parts = ceil_div(blocks, most);
      for (int column = 0; column < tiles; ++column) {
        lengths[ceil_div(blocks, parts)] += parts * ceil_div(tiles_in(tiles, column), 2);
      }
    }
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<int64_t>> busy(
        std::greater<int64_t>(), std::vector<int64_t>(static_cast<size_t>(processors), 0));
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

/// The order in which thread blocks are assigned: those that take long must not be left for the end.
std::vector<int> largest_first(const std::vector<Shape>& shapes) {
  std::vector<int> order(shapes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto &left = shapes[static_cast<size_t>(a)], &right = shapes[static_cast<size_t>(b)];
    return std::make_pair(left.p, left.n) > std::make_pair(right.p, right.n);
  });
  return order;
}

// Two tiles side by side that begin inside a matrix end where int still counts.
constexpr int kWidest = std::numeric_limits<int>::max() - 2 * kTileSide;

void check(const std::vector<Shape>& shapes, int processors) {
  if (processors < 1) {
    throw std::invalid_argument("stiefel: a mixed step is planned for " + std::to_string(processors) +
                                " multiprocessors; pass the device's number, at least 1");
  }
  for (const auto& shape : shapes) {
    if (shape.p < 1 || shape.n < shape.p || shape.n > kWidest) {
      throw std::invalid_argument(
          "stiefel: a mixed step takes matrices of p rows and n columns with 1 <= p <= n <= " +
          std::to_string(kWidest) + "; got p = " + std::to_string(shape.p) +
          ", n = " + std::to_string(shape.n));
    }
  }
}

}  // namespace

MixedPlan::MixedPlan(const std::vector<Shape>& shapes, int processors, const std::vector<Shape>& whole) {
  check(shapes, processors);
  check(whole, processors);
  const auto& cut_for = whole.empty() ? shapes : whole;
  std::vector<Layout> layouts(shapes.size());
  std::vector<RowIndex> rows;
  std::vector<Product> first, second;
  std::vector<TileIndex> pairs, thin, squares;
  const int most_first =
      best_part(cut_for, processors, [](int tiles, int column) { return 3 * tiles - column; });
  const int most_second =
      best_part(cut_for, processors, [](int tiles, int column) { return 2 * tiles - column; });
  WorkspaceCursor cursor;
  int64_t slab_first = 0, slab_second = 0;
  for (const int matrix : largest_first(shapes)) {
    const auto [p, n] = shapes[static_cast<size_t>(matrix)];
    Layout l{};
    l.p = p;
    l.n = n;
    l.ld = round_up(n, kBlockSide);
    l.side = round_up(p, kSmallSide);
    l.first_row = static_cast<int>(rows.size());
    l.first_pair = static_cast<int>(pairs.size());
    widest_row_bytes_ = std::max(widest_row_bytes_, static_cast<size_t>(n) * sizeof(float));
    for (auto& piece : l.pieces) piece = cursor.take(int64_t{2} * l.side * l.ld);
    const int64_t squared = int64_t{l.side} * l.side;
    for (auto* half : {&l.sigma, &l.st, &l.omega, &l.z, &l.r, &l.t, &l.b, &l.q, &l.f, &l.c}) {
      *half = cursor.take(2 * squared);
    }
    for (auto* wide : {&l.e, &l.t_wide, &l.t_squared, &l.f_part}) *wide = cursor.take(4 * squared);
    for (int i = 0; i < l.side; ++i) rows.push_back({matrix, i});

    const int tiles = ceil_div(p, kTileSide), blocks = l.ld / kBlockSide;
    const int parts_first = ceil_div(blocks, most_first), parts_second = ceil_div(blocks, most_second);
    const int runs = ceil_div(ceil_div(blocks, parts_first), kLongestRun);
    l.drift = reserve_slabs(slab_first, tiles, true, parts_first, runs);
    l.rest = reserve_slabs(slab_first, tiles, false, parts_first, 1);
    l.first_overlap = reserve_slabs(slab_first, tiles, false, parts_first, 1);
    l.overlap = reserve_slabs(slab_second, tiles, false, parts_second, 1);
    l.gram = reserve_slabs(slab_second, tiles, true, parts_second, 1);
    for (int column = 0; column < tiles; ++column) {
      std::vector<PlannedTile> list;
      add_column(list, l.drift, kH1, column, tiles, runs);
      add_column(list, l.rest, kH2, column, tiles, 1);
      add_column(list, l.first_overlap, kM1, column, tiles, 1);
      pair_up(first, list, matrix, kH1, column, blocks, parts_first);
      list.clear();
      add_column(list, l.overlap, kH1, column, tiles, 1);
      add_column(list, l.gram, kM1, column, tiles, 1);
      pair_up(second, list, matrix, kM1, column, blocks, parts_second);
    }
    const int sides = l.side / kSmallSide;
    for (int i = 0; i < sides; ++i) {
      for (int j = 0; j <= i; ++j) pairs.push_back({matrix, i, j, 0});
      for (int j = 0; j < sides; ++j) squares.push_back({matrix, i, j, 0});
    }
    layouts[static_cast<size_t>(matrix)] = l;
  }
  // Two tiles side by side at a time.
  for (size_t matrix = 0; matrix < shapes.size(); ++matrix) {
    auto& l = layouts[matrix];
    l.first_thin = static_cast<int>(thin.size());
    for (int j = 0; j < ceil_div(l.n, kTileSide); j += 2) {
      for (int i = 0; i < ceil_div(l.p, kTileSide); ++i) thin.push_back({static_cast<int>(matrix), i, j, 0});
    }
    l.thin_count = static_cast<int>(thin.size()) - l.first_thin;
  }
  sort_by_length(first);
  sort_by_length(second);

  lists_.layouts = append(table_, layouts);
  lists_.rows = append(table_, rows);
  lists_.first_products = append(table_, first);
  lists_.second_products = append(table_, second);
  lists_.pairs = append(table_, pairs);
  lists_.thin = append(table_, thin);
  lists_.squares = append(table_, squares);
  has_short_launches_ = lists_.squares.count <= processors;

  shared_.matrices = cursor.take_entries<Matrix>(matrices());
  shared_.states = cursor.take_entries<State>(matrices());
  shared_.rows = cursor.take_entries<RowSums>(lists_.rows.count);
  shared_.thin = cursor.take_entries<float>(lists_.thin.count);
  shared_.pairs = cursor.take_entries<PairNorms>(lists_.pairs.count);
  shared_.slabs = cursor.take(std::max(slab_first, slab_second) * kTileSide * kTileSide *
                              static_cast<int64_t>(sizeof(float)));
  workspace_bytes_ = static_cast<size_t>(cursor.at);
}

}  // namespace stiefel::cuda
