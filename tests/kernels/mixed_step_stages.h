#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

// The kernels of a mixed step for every card since Ampere, their own code run on the CPU thread by thread in
// a workspace as MixedPlan lays it out. Shared memory begins as NaN, so that a block that does not exist, or
// that a kernel does not wait for, shows.
#include "src/cuda/coefficients.cu"
#include "src/cuda/gram_products.cu"
#include "src/cuda/gram_root.cu"
#include "src/cuda/move.cu"
#include "src/cuda/normal_part.cu"
#include "src/cuda/polar_direction.cu"
#include "src/cuda/projection.cu"
#include "src/cuda/split_rows.cu"
#include "src/cuda/tangent_part.cu"

namespace {

using namespace stiefel::cuda;
using namespace stiefel::cuda::ampere;

/// How a caller's matrix lies in memory.
enum class Storage {
  kRows,
  kColumns,
  kUnaligned,
  kPadded,  ///< rows four by four, whatever n is
};

struct StageCase {
  Shape shape;
  Storage storage;
};

using Rows = std::vector<std::vector<double>>;

inline double inner(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline double squared_norm(const Rows& a) {
  double sum = 0;
  for (const auto& row : a) sum += inner(row, row);
  return sum;
}

/// A Bᵀ.
inline Rows product(const Rows& a, const Rows& b) {
  Rows result(a.size(), std::vector<double>(b.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) result[i][j] = inner(a[i], b[j]);
  }
  return result;
}

/// A float matrix of a caller.
class CallersMatrix {
 public:
  CallersMatrix(const Shape& shape, Storage storage)
      : shape_(shape),
        row(storage == Storage::kColumns  ? 1
            : storage == Storage::kPadded ? (shape.n + 3) / 4 * 4
                                          : shape.n),
        column(storage == Storage::kColumns ? shape.p : 1),
        offset_(storage == Storage::kUnaligned ? 1 : 0),
        data_(static_cast<size_t>(shape.p) * static_cast<size_t>(shape.n + 3) + 1) {}

 private:
  Shape shape_;

 public:
  int row, column;
  float* data() { return data_.data() + offset_; }
  float& at(int i, int j) { return data()[i * row + j * column]; }
  Rows rows() {
    Rows result(static_cast<size_t>(shape_.p), std::vector<double>(static_cast<size_t>(shape_.n)));
    for (int i = 0; i < shape_.p; ++i) {
      for (int j = 0; j < shape_.n; ++j) result[static_cast<size_t>(i)][static_cast<size_t>(j)] = at(i, j);
    }
    return result;
  }

 private:
  size_t offset_;
  std::vector<float> data_;
};

/// Matrices and the stages of a step on them.
class Stages {
 public:
  explicit Stages(const std::vector<StageCase>& cases) : plan_(shapes_of(cases), 4) {
    // Every byte 0xff: a float or half that nobody wrote is NaN.
    workspace_.assign(plan_.workspace_bytes() + kAlignment, static_cast<char>(0xff));
    const auto start = reinterpret_cast<uintptr_t>(workspace_.data());
    char* aligned = workspace_.data() + (kAlignment - static_cast<int64_t>(start % kAlignment)) % kAlignment;
    context_ = context_of(plan_, plan_.table().data(), aligned);
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto& [shape, storage] = cases[i];
      x_.emplace_back(shape, storage);
      m_.emplace_back(shape, storage);
      g_.emplace_back(shape, storage);
      for (int r = 0; r < shape.p; ++r) {
        for (int c = 0; c < shape.n; ++c) {
          x_[i].at(r, c) = normal(random);
          m_[i].at(r, c) = 1e-3f * normal(random);
          g_[i].at(r, c) = 1e-2f * normal(random);
        }
      }
      orthonormalize(x_[i], shape);
      for (int c = 0; c < shape.n; ++c) x_[i].at(0, c) *= 1.01f;  // a little off the manifold
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      context_.matrices[i] = {x_[i].data(), m_[i].data(), g_[i].data(), nullptr,   nullptr,     x_[i].row,
                              x_[i].column, m_[i].row,    m_[i].column, g_[i].row, g_[i].column};
    }
    recipe_.decay = 0.9;
    recipe_.gain = 0.5;
    recipe_.eps = 1e-8;
    recipe_.farthest = 0.5;
    recipe_.skipped = &skipped;
  }

  int64_t skipped = 0;
  size_t count() const { return x_.size(); }
  const Layout& layout(size_t i) const { return context_.layouts[i]; }
  const State& state(size_t i) const { return context_.states[i]; }
  const RowSums& row_sums(size_t i, int row) const { return context_.rows[layout(i).first_row + row]; }
  Rows x(size_t i) { return x_[i].rows(); }
  Rows g(size_t i) { return g_[i].rows(); }
  /// decay·M + gain·G, before the projection.
  Rows next_m(size_t i) {
    Rows m = m_[i].rows();
    const Rows g = g_[i].rows();
    for (size_t r = 0; r < m.size(); ++r) {
      for (size_t c = 0; c < m[r].size(); ++c) m[r][c] = recipe_.decay * m[r][c] + recipe_.gain * g[r][c];
    }
    return m;
  }

  /// A piece as it is stored, padding included.
  Rows piece(size_t i, Piece which) const {
    const auto& l = layout(i);
    return halves_at(l.pieces[which], l.side, l.ld);
  }
  /// A p×p matrix of halves, and of floats, padding included.
  Rows halves(size_t i, int64_t Layout::*member) const {
    const auto& l = layout(i);
    return halves_at(l.*member, l.side, l.side);
  }
  Rows floats(size_t i, int64_t Layout::*member) const {
    const auto& l = layout(i);
    const float* values = context_.floats(l.*member);
    Rows result(static_cast<size_t>(l.side));
    for (int r = 0; r < l.side; ++r) {
      result[static_cast<size_t>(r)].assign(values + int64_t{r} * l.side, values + int64_t{r + 1} * l.side);
    }
    return result;
  }
  double sum_of_pairs(size_t i, float PairNorms::*member) const {
    const auto& l = layout(i);
    double sum = 0;
    for (int k = 0; k < lower_count(l.side / kSmallSide); ++k) {
      sum += static_cast<double>(context_.pairs[l.first_pair + k].*member);
    }
    return sum;
  }

  void split(bool staged) {
    const auto* rows = entries(plan_.lists().rows);
    run_blocks(plan_.lists().rows.count, kSplitThreads,
               [&, rows] { split_row(context_, rows, recipe_, staged ? 1 : 0); });
  }
  void find_normal() {
    multiply(plan_.lists().first_products);
    const auto* pairs = entries(plan_.lists().pairs);
    run_blocks(plan_.lists().pairs.count, kPairThreads, [&, pairs] { normal_part(context_, pairs); });
  }
  void project() { on_thin_tiles(remove_normal_part, recipe_); }
  void find_tangent() {
    multiply(plan_.lists().second_products);
    const auto* pairs = entries(plan_.lists().pairs);
    const auto kernel = recipe_.polar.rounds > 0 ? tangent_part<true> : tangent_part<false>;
    run_blocks(plan_.lists().pairs.count, kPairThreads, [&, pairs] { kernel(context_, pairs, recipe_); });
  }
  /// R, T and, for Cayley Muon, K.
  void find_grams_and_root() {
    const int rounds = recipe_.polar.rounds;
    on_pairs(rounds > 0 ? gram_outside<true> : gram_outside<false>, recipe_);
    for (int round = 0; round < rounds; ++round) {
      on_pairs(find_factor, recipe_, round);
      if (rounds == 1) break;
      on_pairs(multiply_by_factor, round, rounds);
      if (round + 1 < rounds) on_pairs(advance_gram, round, rounds);
    }
  }
  /// K as it is stored, of a momentum that is not in units of μ.
  Rows root(size_t i) const {
    const auto& l = layout(i);
    const StepSize& size = state(i).size;
    Rows k = halves_at(polar_layout(l).k, l.side, l.side);
    k.resize(static_cast<size_t>(l.p));
    for (auto& row : k) {
      row.resize(static_cast<size_t>(l.p));
      for (auto& value : row) value *= static_cast<double>(size.root_scale / size.mu / kRootUnit);
    }
    return k;
  }
  /// From Ω, R, T and K to the coefficients that are applied.
  void find_coefficients() {
    const bool polar = recipe_.polar.rounds > 0;
    if (polar) {
      on_pairs(find_overlap);
      on_pairs(find_grams);
    }
    on_squares(polar ? first_products<true> : first_products<false>);
    on_pairs(polar ? last_product<true> : last_product<false>);
    if (polar) {
      on_squares(apply_root);
      on_squares(balance);
    }
  }
  void move() { on_thin_tiles(move_points); }
  Recipe& recipe() { return recipe_; }
  /// The caller's gradient of a matrix.
  CallersMatrix& gradient(size_t i) { return g_[i]; }
  CallersMatrix& point(size_t i) { return x_[i]; }
  CallersMatrix& momentum(size_t i) { return m_[i]; }

 private:
  static std::vector<Shape> shapes_of(const std::vector<StageCase>& cases) {
    std::vector<Shape> shapes;
    for (const auto& one : cases) shapes.push_back(one.shape);
    return shapes;
  }

  static void orthonormalize(CallersMatrix& x, const Shape& shape) {  // Gram and Schmidt, twice
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < shape.p; ++i) {
        const auto along = [&](int j) {
          double sum = 0;
          for (int c = 0; c < shape.n; ++c) sum += static_cast<double>(x.at(i, c)) * x.at(j, c);
          return sum;
        };
        for (int j = 0; j < i; ++j) {
          const auto length = static_cast<float>(along(j));
          for (int c = 0; c < shape.n; ++c) x.at(i, c) -= length * x.at(j, c);
        }
        const auto norm = static_cast<float>(std::sqrt(along(i)));
        for (int c = 0; c < shape.n; ++c) x.at(i, c) /= norm;
      }
    }
  }

  template <class Entry>
  const Entry* entries(const MixedPlan::List<Entry>& list) const {
    return reinterpret_cast<const Entry*>(plan_.table().data() + list.offset);
  }

  template <class Kernel, class... Arguments>
  void on_tiles(const MixedPlan::List<TileIndex>& list, const Kernel& kernel, const Arguments&... arguments) {
    const auto* tiles = entries(list);
    run_blocks(list.count, CoefficientTile::kThreads, [&, tiles] { kernel(context_, tiles, arguments...); });
  }
  template <class Kernel, class... Arguments>
  void on_pairs(const Kernel& kernel, const Arguments&... arguments) {
    on_tiles(plan_.lists().pairs, kernel, arguments...);
  }
  template <class Kernel, class... Arguments>
  void on_squares(const Kernel& kernel, const Arguments&... arguments) {
    on_tiles(plan_.lists().squares, kernel, arguments...);
  }

  template <class Kernel, class... Arguments>
  void on_thin_tiles(const Kernel& kernel, const Arguments&... arguments) {
    const auto* tiles = entries(plan_.lists().thin);
    run_blocks(plan_.lists().thin.count, ThinTile::kThreads,
               [&, tiles] { kernel(context_, tiles, arguments...); });
  }

  template <class Kernel>
  static void run_blocks(int blocks, int threads, const Kernel& kernel) {
    std::memset(cuda_on_cpu::dynamic_memory(), 0xff, cuda_on_cpu::kDynamicBytes);
    cuda_on_cpu::run(dim3(static_cast<unsigned>(blocks)), threads, kernel);
  }

  Rows halves_at(int64_t offset, int rows, int columns) const {
    const __half* values = context_.halves(offset);
    Rows result(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        result[size_t(r)][size_t(c)] = __half2float(values[swizzled_index(r, c, columns / kBlockSide)]);
      }
    }
    return result;
  }

  void multiply(const MixedPlan::List<Product>& list) {
    const auto* products = entries(list);
    run_blocks(list.count, GramTile::kThreads, [&, products] { gram_products(context_, products); });
  }

  MixedPlan plan_;
  std::vector<char> workspace_;
  Context context_{};
  std::vector<CallersMatrix> x_, m_, g_;
  Recipe recipe_{};
};

inline const std::vector<StageCase>& stage_cases() {
  static const std::vector<StageCase> cases{{{40, 90}, Storage::kRows},       {{64, 64}, Storage::kRows},
                                            {{70, 1400}, Storage::kRows},     {{130, 200}, Storage::kColumns},
                                            {{1, 9}, Storage::kRows},         {{1, 1}, Storage::kRows},
                                            {{65, 132}, Storage::kUnaligned}, {{33, 130}, Storage::kPadded}};
  return cases;
}

inline std::string named(const Shape& shape) {
  return std::to_string(shape.p) + "×" + std::to_string(shape.n);
}

}  // namespace
