#include "src/cuda/mixed_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// The plan of a mixed step against what the kernels take for granted: every tile is computed once, no two
// buffers overlap, and all lie inside the workspace. The kernels themselves run in gpu_test, on a GPU.

namespace {

using namespace stiefel::cuda;

struct PlanCase {
  std::string name;
  std::vector<Shape> shapes;
};

std::ostream& operator<<(std::ostream& out, const PlanCase& c) { return out << c.name; }

std::vector<PlanCase> plan_cases() {
  std::vector<PlanCase> cases;
  for (const auto& [p, n] : std::initializer_list<std::pair<int, int>>{{1, 1},
                                                                       {1, 64},
                                                                       {1, 65},
                                                                       {1, 3000000},
                                                                       {2, 3},
                                                                       {63, 64},
                                                                       {64, 64},
                                                                       {65, 65},
                                                                       {65, 129},
                                                                       {127, 257},
                                                                       {128, 256},
                                                                       {129, 1000},
                                                                       {192, 192},
                                                                       {640, 5760},
                                                                       {700, 701}}) {
    cases.push_back({std::to_string(p) + "x" + std::to_string(n), {{p, n}}});
  }
  cases.push_back({"none", {}});
  cases.push_back({"mixed", {{3, 7}, {640, 5760}, {1, 1}, {640, 5760}, {64, 576}, {130, 131}, {1, 200000}}});
  PlanCase many{"hundreds", {}};
  for (int i = 0; i < 300; ++i) many.shapes.push_back({1 + i * 7 % 200, 200 + i * 13 % 900});
  cases.push_back(many);
  cases.push_back({"alike", std::vector<Shape>(250, Shape{16, 144})});
  return cases;
}

/// A list of a plan's table, read as the device does.
template <class Entry>
std::vector<Entry> entries_of(const MixedPlan& plan, const MixedPlan::List<Entry>& list) {
  EXPECT_EQ(list.offset % kAlignment, 0u);
  EXPECT_LE(list.offset + static_cast<size_t>(list.count) * sizeof(Entry), plan.table().size());
  std::vector<Entry> entries(static_cast<size_t>(list.count));
  if (!entries.empty()) {
    std::memcpy(entries.data(), plan.table().data() + list.offset, entries.size() * sizeof(Entry));
  }
  return entries;
}

template <class Container>
const auto& at(const Container& container, int64_t i) {
  return container.at(static_cast<size_t>(i));
}

/// Ranges of bytes that must not overlap.
class Ranges {
 public:
  void add(const std::string& name, int64_t from, int64_t bytes) {
    ranges_.push_back({from, from + bytes, name});
  }

  void expect_apart(int64_t end) {
    std::sort(ranges_.begin(), ranges_.end());
    int64_t last = 0;
    std::string last_name = "the start";
    for (const auto& [from, to, name] : ranges_) {
      EXPECT_GE(from, last) << name << " overlaps " << last_name;
      EXPECT_EQ(from % kAlignment, 0) << name;
      last = to;
      last_name = name;
    }
    EXPECT_LE(last, end) << last_name << " ends beyond the end";
  }

 private:
  std::vector<std::tuple<int64_t, int64_t, std::string>> ranges_;
};

class PlannedStep : public testing::TestWithParam<std::tuple<PlanCase, int>> {
 protected:
  PlannedStep()
      : shapes(std::get<0>(GetParam()).shapes),
        plan(shapes, std::get<1>(GetParam())),
        layouts(entries_of(plan, plan.lists().layouts)) {}

  /// Slabs that the first and the second products need, from the layouts.
  static int64_t slabs_of(const Partials& sums, int tiles) {
    return int64_t{sums.slabs} * (sums.symmetric ? tiles * (tiles + 1) / 2 : tiles * tiles);
  }

  /// Expects every tile of every named product to be computed once over all of the inner dimension, into
  /// slabs of its own.
  void expect_each_tile_once(
      const MixedPlan::List<Product>& list,
      const std::vector<std::pair<std::pair<int, int>, Partials Layout::*>>& products) {
    // For a slab: how many products write it. For a tile: the ranges of blocks that were added to its slabs.
    std::map<int64_t, int> writes;
    std::map<std::tuple<int, int, int, int>, std::vector<std::pair<int, int>>> covered;
    int longest = std::numeric_limits<int>::max();
    for (const auto& product : entries_of(plan, list)) {
      const auto& l = at(layouts, product.matrix);
      const int tiles = (l.p + kTileSide - 1) / kTileSide, blocks = (l.n + kBlockSide - 1) / kBlockSide;
      ASSERT_TRUE(0 <= product.from && product.from < product.to && product.to <= blocks);
      ASSERT_LE(product.to - product.from, longest) << "long ones first";
      longest = product.to - product.from;
      ASSERT_TRUE(0 <= product.column && product.column < tiles);
      ASSERT_TRUE(1 <= product.runs && product.runs <= product.to - product.from);
      ASSERT_NE(product.parts[0].slab, Product::kNoSlab) << "a block of threads with nothing to do";
      for (const auto& part : product.parts) {
        if (part.slab == Product::kNoSlab) {
          ASSERT_GE(part.row * (kTileSide / kBlockSide), l.side / kBlockSide)
              << "no block of it may be loaded";
          continue;
        }
        ASSERT_TRUE(0 <= part.row && part.row < tiles);
        ASSERT_TRUE(part.own_runs == 1 || part.own_runs == product.runs);
        const auto found = std::find_if(products.begin(), products.end(), [&](const auto& one) {
          return one.first == std::pair{part.a, product.b};
        });
        ASSERT_NE(found, products.end()) << "not a product of this launch";
        const Partials& sums = l.*(found->second);
        if (sums.symmetric) {
          ASSERT_GE(part.row, product.column) << "lower tiles only";
        }
        const int64_t first = sums.slab(part.row, product.column, tiles);
        ASSERT_TRUE(first <= part.slab && part.slab + part.own_runs <= first + sums.slabs);
        for (int run = 0; run < part.own_runs; ++run) ++writes[part.slab + run];
        covered[{product.matrix, part.a, part.row, product.column}].push_back({product.from, product.to});
      }
    }
    int64_t slabs = 0;
    size_t expected_tiles = 0;
    for (const auto& l : layouts) {
      const int tiles = (l.p + kTileSide - 1) / kTileSide;
      for (const auto& [operands, member] : products) {
        slabs += slabs_of(l.*member, tiles);
        expected_tiles += static_cast<size_t>(slabs_of(l.*member, tiles) / (l.*member).slabs);
      }
    }
    ASSERT_EQ(static_cast<int64_t>(writes.size()), slabs) << "a slab is read that nobody writes";
    for (const auto& [slab, times] : writes) {
      ASSERT_TRUE(0 <= slab && slab < slabs);
      ASSERT_EQ(times, 1) << "slab " << slab;
    }
    EXPECT_LE(plan.shared().slabs + slabs * kTileSide * kTileSide * int64_t{sizeof(float)},
              static_cast<int64_t>(plan.workspace_bytes()));
    ASSERT_EQ(covered.size(), expected_tiles);
    for (auto& [tile, ranges] : covered) {
      std::sort(ranges.begin(), ranges.end());
      int end = 0;
      for (const auto& [from, to] : ranges) {
        ASSERT_EQ(from, end) << "blocks are left out or taken twice";
        end = to;
      }
      ASSERT_EQ(end, at(layouts, std::get<0>(tile)).ld / kBlockSide);
    }
  }

  std::vector<Shape> shapes;
  MixedPlan plan;
  std::vector<Layout> layouts;
};

TEST_P(PlannedStep, LayoutsAreThoseOfTheShapes) {
  ASSERT_EQ(layouts.size(), shapes.size());
  EXPECT_EQ(plan.matrices(), static_cast<int>(shapes.size()));
  EXPECT_EQ(plan.lists().layouts.offset, 0u);
  size_t widest = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto& l = layouts[i];
    EXPECT_EQ(l.p, shapes[i].p);
    EXPECT_EQ(l.n, shapes[i].n);
    EXPECT_TRUE(l.ld % kBlockSide == 0 && l.ld >= l.n && l.ld < l.n + kBlockSide);
    EXPECT_TRUE(l.side % kSmallSide == 0 && l.side >= l.p && l.side < l.p + kSmallSide);
    widest = std::max(widest, sizeof(float) * static_cast<size_t>(l.n));
  }
  EXPECT_EQ(plan.widest_row_bytes(), widest);
}

TEST_P(PlannedStep, BuffersLieApartInTheWorkspace) {
  Ranges ranges;
  int64_t first_slabs = 0, second_slabs = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& l = layouts[i];
    const std::string of = " of matrix " + std::to_string(i);
    const int64_t thin = int64_t{l.side} * l.ld, square = int64_t{l.side} * l.side;
    for (int piece = 0; piece < kPieces; ++piece) {
      ranges.add("piece " + std::to_string(piece) + of, l.pieces[piece], 2 * thin);
    }
    const std::array<std::pair<const char*, int64_t>, 10> halves{{{"sigma", l.sigma},
                                                                  {"st", l.st},
                                                                  {"omega", l.omega},
                                                                  {"z", l.z},
                                                                  {"r", l.r},
                                                                  {"t", l.t},
                                                                  {"b", l.b},
                                                                  {"q", l.q},
                                                                  {"f", l.f},
                                                                  {"c", l.c}}};
    for (const auto& [name, offset] : halves) ranges.add(name + of, offset, 2 * square);
    const std::array<std::pair<const char*, int64_t>, 4> floats{
        {{"e", l.e}, {"t_wide", l.t_wide}, {"t_squared", l.t_squared}, {"f_part", l.f_part}}};
    for (const auto& [name, offset] : floats) ranges.add(name + of, offset, 4 * square);
    const int tiles = (l.p + kTileSide - 1) / kTileSide;
    for (const auto* sums : {&l.drift, &l.rest, &l.first_overlap}) first_slabs += slabs_of(*sums, tiles);
    for (const auto* sums : {&l.overlap, &l.gram}) second_slabs += slabs_of(*sums, tiles);
  }
  const auto& lists = plan.lists();
  const auto& shared = plan.shared();
  ranges.add("matrices", shared.matrices, int64_t{sizeof(Matrix)} * plan.matrices());
  ranges.add("states", shared.states, int64_t{sizeof(State)} * plan.matrices());
  ranges.add("rows", shared.rows, int64_t{sizeof(RowSums)} * lists.rows.count);
  ranges.add("thin", shared.thin, int64_t{sizeof(float)} * lists.thin.count);
  ranges.add("pairs", shared.pairs, int64_t{sizeof(PairNorms)} * lists.pairs.count);
  ranges.add("slabs", shared.slabs,
             std::max(first_slabs, second_slabs) * kTileSide * kTileSide * int64_t{sizeof(float)});
  ranges.expect_apart(static_cast<int64_t>(plan.workspace_bytes()));
}

TEST_P(PlannedStep, ListsLieApartInTheTable) {
  const auto& lists = plan.lists();
  Ranges ranges;
  const auto add = [&](const char* name, const auto& list, size_t bytes) {
    ranges.add(name, static_cast<int64_t>(list.offset), static_cast<int64_t>(bytes) * list.count);
  };
  add("layouts", lists.layouts, sizeof(Layout));
  add("rows", lists.rows, sizeof(RowIndex));
  add("first products", lists.first_products, sizeof(Product));
  add("second products", lists.second_products, sizeof(Product));
  add("pairs", lists.pairs, sizeof(TileIndex));
  add("thin", lists.thin, sizeof(TileIndex));
  add("squares", lists.squares, sizeof(TileIndex));
  ranges.expect_apart(static_cast<int64_t>(plan.table().size()));
}

TEST_P(PlannedStep, FirstProductsHaveEveryTileOnce) {
  expect_each_tile_once(
      plan.lists().first_products,
      {{{kH1, kH1}, &Layout::drift}, {{kH2, kH1}, &Layout::rest}, {{kM1, kH1}, &Layout::first_overlap}});
}

TEST_P(PlannedStep, SecondProductsHaveEveryTileOnce) {
  expect_each_tile_once(plan.lists().second_products,
                        {{{kH1, kM1}, &Layout::overlap}, {{kM1, kM1}, &Layout::gram}});
}

TEST_P(PlannedStep, DriftIsAddedUpInShortRuns) {
  for (const auto& product : entries_of(plan, plan.lists().first_products)) {
    for (const auto& part : product.parts) {
      if (part.a != kH1 || part.slab == Product::kNoSlab) continue;
      const int rounds = product.to - product.from;
      for (int run = 0; run < part.own_runs; ++run) {  // as gram_products.cu cuts them
        const int length = rounds * (run + 1) / part.own_runs - rounds * run / part.own_runs;
        ASSERT_TRUE(1 <= length && length <= 18);  // 1152 = 18·64 columns
      }
    }
  }
}

TEST_P(PlannedStep, RowsComeOnceInTheMatrixsOrder) {
  const auto rows = entries_of(plan, plan.lists().rows);
  size_t expected = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& l = layouts[i];
    expected += static_cast<size_t>(l.side);
    for (int row = 0; row < l.side; ++row) {
      ASSERT_EQ(at(rows, l.first_row + row).matrix, static_cast<int>(i));
      ASSERT_EQ(at(rows, l.first_row + row).row, row);
    }
  }
  EXPECT_EQ(rows.size(), expected);
}

TEST_P(PlannedStep, SmallTilesComeOnce) {
  const auto pairs = entries_of(plan, plan.lists().pairs);
  std::set<std::tuple<int, int, int>> squares;
  for (const auto& tile : entries_of(plan, plan.lists().squares)) {
    ASSERT_TRUE(squares.insert({tile.matrix, tile.row, tile.column}).second) << "twice";
  }
  size_t expected_pairs = 0, expected_squares = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& l = layouts[i];
    const int sides = l.side / kSmallSide;
    int number = 0;  // in the order in which the kernels number a matrix's pairs
    for (int row = 0; row < sides; ++row) {
      for (int column = 0; column <= row; ++column, ++number) {
        ASSERT_EQ(lower_index(row, column), number);
        const auto& pair = at(pairs, l.first_pair + number);
        ASSERT_EQ(std::tuple(pair.matrix, pair.row, pair.column),
                  std::tuple(static_cast<int>(i), row, column));
      }
      for (int column = 0; column < sides; ++column) {
        ASSERT_TRUE(squares.count({static_cast<int>(i), row, column}));
      }
    }
    ASSERT_EQ(number, lower_count(sides));
    expected_pairs += static_cast<size_t>(number);
    expected_squares += static_cast<size_t>(sides) * static_cast<size_t>(sides);
  }
  EXPECT_EQ(pairs.size(), expected_pairs);
  EXPECT_EQ(squares.size(), expected_squares);
}

TEST_P(PlannedStep, ThinTilesCoverEveryEntryOnce) {
  const auto thin = entries_of(plan, plan.lists().thin);
  size_t expected = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& l = layouts[i];
    expected += static_cast<size_t>(l.thin_count);
    std::set<std::pair<int, int>> tiles;
    for (int t = 0; t < l.thin_count; ++t) {
      const auto& tile = at(thin, l.first_thin + t);
      ASSERT_EQ(tile.matrix, static_cast<int>(i));
      for (const int column : {tile.column, tile.column + 1}) {  // two teams, a tile each
        ASSERT_TRUE(tiles.insert({tile.row, column}).second) << "twice";
      }
      ASSERT_LT(tile.column * kTileSide, l.n) << "a block of threads with nothing to do";
    }
    const int down = (l.p + kTileSide - 1) / kTileSide, across = (l.n + kTileSide - 1) / kTileSide;
    for (int row = 0; row < down; ++row) {
      for (int column = 0; column < across; ++column) ASSERT_TRUE(tiles.count({row, column}));
    }
    ASSERT_EQ(tiles.size(), static_cast<size_t>(down) * static_cast<size_t>((across + 1) / 2 * 2));
  }
  EXPECT_EQ(thin.size(), expected);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PlannedStep,
                         testing::Combine(testing::ValuesIn(plan_cases()), testing::Values(132, 108, 1)));

TEST(MixedPlan, RefusesWhatItCannotPlan) {
  EXPECT_THROW(MixedPlan({{1, 1}}, 0), std::invalid_argument);
  EXPECT_THROW(MixedPlan({{0, 1}}, 132), std::invalid_argument);
  EXPECT_THROW(MixedPlan({{3, 2}}, 132), std::invalid_argument);
  EXPECT_THROW(MixedPlan({{1, std::numeric_limits<int>::max()}}, 132), std::invalid_argument);
}

TEST(MixedPlan, CutsALongMatrixForTheProcessorsThereAre) {
  const auto products = [](int processors) {
    return MixedPlan({{64, 100000}}, processors).lists().first_products.count;
  };
  EXPECT_LT(products(1), products(132));
}

/// How the sums over n of each matrix are cut, in the order of the shapes: slabs, and the blocks of each
/// part.
std::vector<std::string> cuts_of(const MixedPlan& plan) {
  std::vector<std::string> cuts;
  for (const auto& l : entries_of(plan, plan.lists().layouts)) {
    std::string text;
    for (const auto& sums : {l.drift, l.rest, l.first_overlap, l.overlap, l.gram}) {
      text += std::to_string(sums.slabs) + " ";
    }
    cuts.push_back(text);
  }
  for (const auto& list : {plan.lists().first_products, plan.lists().second_products}) {
    std::vector<std::set<std::tuple<int, int, int>>> ranges(cuts.size());
    for (const auto& product : entries_of(plan, list)) {
      const auto matrix = static_cast<size_t>(product.matrix);
      ranges[matrix].insert({product.from, product.to, product.runs});
    }
    for (size_t i = 0; i < cuts.size(); ++i) {
      for (const auto& [from, to, runs] : ranges[i]) {
        cuts[i] += "[" + std::to_string(from) + "," + std::to_string(to) + ")" + std::to_string(runs) + " ";
      }
    }
  }
  return cuts;
}

TEST(MixedPlan, CutsAPartOfAStepAsTheWholeStep) {
  const std::vector<Shape> vgg{{27, 64},    {64, 576},   {128, 576},  {128, 1152}, {256, 1152},
                               {256, 2304}, {256, 2304}, {512, 2304}, {512, 4608}, {512, 4608},
                               {512, 4608}, {512, 4608}, {512, 4608}};
  const auto whole = cuts_of(MixedPlan(vgg, 132));
  EXPECT_EQ(cuts_of(MixedPlan(vgg, 132, vgg)), whole);
  bool differ = false;  // parts that are planned alone
  for (const size_t size : {size_t{1}, size_t{2}, size_t{5}}) {
    for (size_t first = 0; first + size <= vgg.size(); ++first) {
      const auto from = static_cast<std::ptrdiff_t>(first), to = static_cast<std::ptrdiff_t>(first + size);
      const std::vector<Shape> part(vgg.begin() + from, vgg.begin() + to);
      const std::vector<std::string> expected(whole.begin() + from, whole.begin() + to);
      EXPECT_EQ(cuts_of(MixedPlan(part, 132, vgg)), expected) << first << " and " << size;
      differ = differ || cuts_of(MixedPlan(part, 132)) != expected;
    }
  }
  EXPECT_TRUE(differ);
}

TEST(MixedPlan, HasShortLaunchesWhereAllSmallTilesRunAtOnce) {
  const std::vector<Shape> four{{100, 300}, {64, 576}, {10, 27}};  // 2×2 small tiles, and one of each other
  EXPECT_TRUE(MixedPlan(four, 6).has_short_launches());
  EXPECT_FALSE(MixedPlan(four, 5).has_short_launches());
}

TEST(MixedPlan, IsTheSameEveryTime) {
  const std::vector<Shape> shapes{{3, 7}, {640, 5760}, {64, 576}};
  EXPECT_EQ(MixedPlan(shapes, 132).table(), MixedPlan(shapes, 132).table());
}

TEST(SwizzledIndex, HasEveryEntryOnceAndKeepsChunksTogether) {
  constexpr int kDown = 2, kAcross = 3;
  std::set<int64_t> seen;
  for (int row = 0; row < kDown * kBlockSide; ++row) {
    for (int column = 0; column < kAcross * kBlockSide; ++column) {
      const int64_t index = swizzled_index(row, column, kAcross);
      ASSERT_TRUE(0 <= index && index < kDown * kAcross * kBlockHalves);
      ASSERT_TRUE(seen.insert(index).second);
      ASSERT_EQ(index / kBlockHalves, row / kBlockSide * kAcross + column / kBlockSide) << "blocks in order";
      ASSERT_EQ(index - column % 8, swizzled_index(row, column - column % 8, kAcross)) << "eight together";
      ASSERT_EQ(index % 8, column % 8);
    }
  }
  // Eight rows of a column of chunks lie in eight different chunks of 16 bytes: no two share a bank.
  for (int column = 0; column < kBlockSide; column += 8) {
    std::set<int64_t> chunks;
    for (int row = 0; row < 8; ++row) chunks.insert(swizzled_index(row, column, 1) % kBlockSide / 8);
    EXPECT_EQ(chunks.size(), 8u);
  }
}

}  // namespace
