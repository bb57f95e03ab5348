#pragma once

#include "adam_numbers.cuh"
#include "mixed_context.cuh"
#ifdef __CUDACC__
#include "ptx.cuh"
#endif
#include "small_list.h"
#include "small_tile.cuh"

// The step of one small matrix by one thread block, in row form: x is p×n, x xᵀ = I, M has the gradient's
// sign, and x moves along τM with τ < 0.
//
// Nothing on the way to the new x must be accurate. The paper's iterate Y is made from operands that were
// rounded once, and what it is off the manifold by, from whatever cause (its truncation V, what rounding left
// of the normal part, the drift of x), is measured:
//
//     E = Y Yᵀ − I,  Y ← Y − ½E Y        until ‖E‖ ≤ kClose; each time what is left is ¾E² + ¼E³
//
// That is Newton's iteration to the polar factor of Y. Only E must be accurate: Y in all the pieces of
// Products and E's diagonal as a sum of squares. For matrices that do not stay on chip the measurement would
// be another pass over them; there V, Z and E are computed ahead instead (mixed_step.cu).
//
// p < n:  Σ = ½(S + Sᵀ), S = x Mᵀ;  M ← M − Σx, which is written, and rounded is the direction
//         Ω = ½(S − Sᵀ), Z = ½(S + Sᵀ), T = M Mᵀ of it: the second look;  R = T + Ω²
//         ‖W‖² = 2(tr T − ‖Z‖²) − ‖Ω‖², α = min(l, 2q/(‖W‖ + ε))
//         F = −(τ²/2)R + (τ³/4)ΩR,  C − τI = −(τ²/2)Ω − (τ³/4)T, of which Z is not taken off: E has 2τZ
//         Y = x + τM + Fx + (C − τI)M
// p = n:  O = ½(Sᵀ − S), M ← Ox, ‖W‖ = ‖O‖,  D = τO + (τ²/2)O² + (τ³/4)O³,  Y = x + Dx
//
// M = μM̃ with μ a power of two and ‖M̃‖ ≤ 1. The p×p matrices are those of M̃, and θ = τμ takes τ's place.

namespace stiefel::cuda {

/// How a thread block takes the matrices of up to p×n: in warps' tiles of `kTileRows`×`kTileColumns`. The
/// tiles of p×p matrices are as tall, and as many side by side.
template <class Products_, int kP_, int kN_, int kTileRows, int kTileColumns, bool kSquare_>
struct SmallBlock {
  using Products = Products_;
  using Cell = typename Products::Cell;
  static constexpr int kP = kP_, kN = kN_;
  static constexpr bool kSquare = kSquare_;
  static_assert(!kSquare || kP == kN);
  static constexpr int kDown = kP / kTileRows, kAcross = kN / kTileColumns;
  static constexpr int kThreads = 32 * kDown * kAcross;
  using Wide = WarpTile<kTileRows, kTileColumns>;
  using Narrow = WarpTile<kTileRows, kP / kAcross>;

  using WideMatrix = SharedMatrix<Cell, kP, kN>;
  using NarrowMatrix = SharedMatrix<Cell, kP, kP>;
  /// x, M, and p×p matrices.
  static constexpr int kNarrowMatrices = kSquare ? 1 : 2;
  static constexpr int kSharedBytes = 2 * WideMatrix::kBytes + kNarrowMatrices * NarrowMatrix::kBytes;
};

/// Registers of a multiprocessor.
constexpr int kRegisters = 65536;

template <class Block>
class SmallStep {
 public:
  __device__ SmallStep(const SmallList& list, const Recipe& recipe, char* memory)
      : recipe_(recipe), stack_(stack_of(list)), index_(static_cast<int>(blockIdx.x) - stack_.first) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int down = warp / Block::kAcross, across = warp % Block::kAcross;
    wide_ = {down * Wide::kRows, across * Wide::kColumns};
    narrow_ = {down * Narrow::kRows, across * Narrow::kColumns};
    across_ = across;
    x_in_.data = reinterpret_cast<Cell*>(memory);
    m_in_.data = reinterpret_cast<Cell*>(memory + WideMatrix::kBytes);
    for (int i = 0; i < Block::kNarrowMatrices; ++i) {
      small_[i].data = reinterpret_cast<Cell*>(memory + 2 * WideMatrix::kBytes + i * NarrowMatrix::kBytes);
    }
  }

  __device__ void run() {
    const float rate = static_cast<float>(*recipe_.rate);
    prefetch(m());
    prefetch(g());
    WideValues values;
    read(values, x());
    store(x_in_, wide_, values, kXScale);
    const bool sound = take_momentum(values);
    store(m_in_, wide_, values, kMomentumUnit * inverse_mu_);
    advance();
    __syncthreads();
    const float e2 = drift();
    bool moves = false;
    if constexpr (Block::kSquare) {
      moves = step_square(values, rate, e2, sound);
    } else {
      moves = step_thin(values, rate, e2, sound);
    }
    if (!moves) return;
    polish(values);
    write(x(), values);
  }

 private:
  using Products = typename Block::Products;
  using Cell = typename Block::Cell;
  using Wide = typename Block::Wide;
  using Narrow = typename Block::Narrow;
  using WideValues = typename Wide::Values;
  using NarrowValues = typename Narrow::Values;
  using WideMatrix = typename Block::WideMatrix;
  using NarrowMatrix = typename Block::NarrowMatrix;

  static constexpr float kMomentumUnit = 1024;  // what 1 is in M̃, whose entries are at most 1
  static constexpr float kClose = 1e-3f;        // ‖E‖, of which ¾‖E‖² = 7.5e-7 may be left
  /// From ‖E‖ = 0.5 four rounds are enough.
  static constexpr int kMostRounds = 6;

  /// A matrix in global memory; there are zeros beyond it.
  template <class Number>
  struct Global {
    Number* data;
    int row, column;
    int p, n;

    /// The host sees to it that the offset fits an int.
    __device__ Number* at(int i, int j) const { return data + (i * row + j * column); }
    /// Whether neighbors in a row can be read in pairs.
    __device__ bool by_pairs() const {
      return column == 1 && row % 2 == 0 && n % 2 == 0 && (reinterpret_cast<uintptr_t>(data) & 7) == 0;
    }
  };

  /// Made where they are used: kept in registers they would be a sixth of them.
  __device__ Global<float> x() const {
    return {stack_.x + index_ * stack_.x_stack, stack_.x_row, stack_.x_column, stack_.p, stack_.n};
  }
  __device__ Global<float> m() const {
    return {stack_.m + index_ * stack_.m_stack, stack_.m_row, stack_.m_column, stack_.p, stack_.n};
  }
  __device__ Global<const float> g() const {
    return {stack_.g + index_ * stack_.g_stack, stack_.g_row, stack_.g_column, stack_.p, stack_.n};
  }

  static __device__ const SmallStack& stack_of(const SmallList& list) {
    const SmallStack* stacks = list.table != nullptr ? list.table : list.own;
    int low = 0, high = list.stacks;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (stacks[middle].first <= static_cast<int>(blockIdx.x) ? low : high) = middle;
    }
    return stacks[low];
  }

  /// Brings a matrix into the cache while another is read: all three at once would be too many registers.
  template <class Number>
  static __device__ void prefetch(const Global<Number>& matrix) {
    constexpr int kLine = 32;  // floats of 128 bytes
    const bool rows = matrix.column == 1;
    const int length = rows ? matrix.n : matrix.p, lines = (length + kLine - 1) / kLine;
    for (int i = static_cast<int>(threadIdx.x); i < (rows ? matrix.p : matrix.n) * lines;
         i += Block::kThreads) {
      const int across = i / lines, along = i % lines * kLine;
      const Number* line = rows ? matrix.at(across, along) : matrix.at(along, across);
#ifdef __CUDACC__
      ptx::prefetch_l2(line);
#else
      static_cast<void>(*line);
#endif
    }
  }

  /// visit(i, j, h, first, second) for each of the thread's pairs.
  template <class Number, class Visit>
  __device__ void read_pairs(const Global<Number>& from, Visit visit) const {
    if (from.by_pairs()) {
      wide_.for_each_pair([&](int i, int j, int h, int row, int column) {
        const float2 pair = row < from.p && column < from.n
                                ? *reinterpret_cast<const float2*>(from.at(row, column))
                                : make_float2(0, 0);
        visit(i, j, h, pair.x, pair.y);
      });
    } else {
      const auto value = [&](int row, int column) {
        return row < from.p && column < from.n ? *from.at(row, column) : 0.0f;
      };
      wide_.for_each_pair([&](int i, int j, int h, int row, int column) {
        visit(i, j, h, value(row, column), value(row, column + 1));
      });
    }
  }
  template <class Number>
  __device__ void read(WideValues& values, const Global<Number>& from) const {
    read_pairs(from, [&](int i, int j, int h, float first, float second) {
      values.at[i][j][2 * h] = first;
      values.at[i][j][2 * h + 1] = second;
    });
  }

  __device__ void write(const Global<float>& to, const WideValues& values) const {
    const bool pairs = to.by_pairs();
    wide_.for_each_pair([&](int i, int j, int h, int row, int column) {
      const float first = values.at[i][j][2 * h], second = values.at[i][j][2 * h + 1];
      if (row >= to.p || column >= to.n) return;
      if (pairs) {
        *reinterpret_cast<float2*>(to.at(row, column)) = make_float2(first, second);
      } else {
        *to.at(row, column) = first;
        if (column + 1 < to.n) *to.at(row, column + 1) = second;
      }
    });
  }

  /// Into shared memory, as multiples of 1/unit.
  template <class Matrix, class Tile>
  static __device__ void store(const Matrix& to, const Tile& tile, const typename Tile::Values& values,
                               float unit) {
    tile.for_each_pair([&](int i, int j, int h, int row, int column) {
      Products::store(to.at(row, column), values.at[i][j][2 * h] * unit, values.at[i][j][2 * h + 1] * unit);
    });
  }

  template <class Values>
  static __device__ float squared_norm(Values& values) {
    float sum = 0;
    values.for_each([&](float& value) { sum += value * value; });
    return sum;
  }

  /// M ← decay·M + gain·G, not yet written, with ‖G‖² and μ. Returns whether it can be used: a gradient that
  /// is not finite, or so long that M Mᵀ would overflow, moves nothing.
  __device__ bool take_momentum(WideValues& next) {
    read(next, m());
    float g2 = 0, none = 0;
    const float decay = static_cast<float>(recipe_.decay), gain = static_cast<float>(recipe_.gain);
    read_pairs(g(), [&](int i, int j, int h, float first, float second) {
      g2 += first * first + second * second;
      next.at[i][j][2 * h] = decay * next.at[i][j][2 * h] + gain * first;
      next.at[i][j][2 * h + 1] = decay * next.at[i][j][2 * h + 1] + gain * second;
    });
    float m2 = squared_norm(next);
    sum_over_block(g2, m2, none);
    g2_ = g2;
    take_unit(m2);
    return g2 <= 3.4e30f && m2 <= 3.4e30f;  // false for NaN
  }

  /// 1/μ, which makes ‖M̃‖ at most 1.
  __device__ void take_unit(float m2) { inverse_mu_ = power_below(1 / sqrtf(m2)); }

  /// A thread's part of ‖x xᵀ − I‖², from x as it is stored.
  __device__ float drift() const {
    NarrowValues e;
    e.clear();
    Products::add_transposed(e, narrow_, x_in_, x_in_);
    float sum = 0;
    narrow_.for_each_pair([&](int i, int j, int h, int row, int column) {
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const float value = e.at[i][j][2 * h + u] / (kXScale * kXScale) - one_at(row, column + u);
        sum += value * value;
      }
    });
    return sum;
  }

  /// The identity, with zeros beyond the matrix.
  __device__ float one_at(int row, int column) const { return row == column && row < stack_.p ? 1.f : 0.f; }

  /// Cayley ADAM's numbers after this step, and r, 1 for the others. By one thread, before the products:
  /// there are not enough registers for powers beside them.
  __device__ void advance() const {
    if (threadIdx.x != 0) return;
    shared().r = 1;
    if (!recipe_.adam) return;
    shared().next = advanced(recipe_, {stack_.v[index_], stack_.k[index_]}, g2_);
    shared().r = static_cast<float>(adam_divisor(recipe_, shared().next));
  }

  /// Whether the matrix may move. Counts it where it must stay; else v and k are written.
  __device__ bool decide(float e2, bool sound) const {
    const bool near = e2 <= static_cast<float>(recipe_.farthest * recipe_.farthest);  // false for NaN
    const bool moves = sound && near;
    if (threadIdx.x == 0) {
      if (!moves) increment(recipe_.skipped);
      if (!near) increment(recipe_.off_manifold);
      if (moves && recipe_.adam) {
        stack_.v[index_] = shared().next.v;
        stack_.k[index_] = shared().next.k;
      }
    }
    __syncwarp();  // a product by the whole warp may follow
    return moves;
  }
  struct Shared {
    AdamPair next;
    float r;
  };
  static __device__ Shared& shared() {
    __shared__ Shared one;
    return one;
  }

  /// τ for the ‖W‖ of M̃.
  __device__ float signed_step(float length, float rate) const {
    const float r = shared().r;
    const float norm = length / inverse_mu_;
    const float alpha =
        fminf(rate, 2 * static_cast<float>(recipe_.q) / (norm / r + static_cast<float>(recipe_.eps)));
    return -alpha / r;
  }

  /// From M to M − Σx, which is written, and to Y. Returns whether the matrix moves.
  __device__ bool step_thin(WideValues& values, float rate, float e2, bool sound) {
    {
      NarrowValues sigma;
      sigma.clear();
      Products::add_transposed(sigma, narrow_, x_in_, m_in_);
      Products::add_transposed(sigma, narrow_, m_in_, x_in_);
      store(small_[0], narrow_, sigma, 0.5f * kUnit / (kXScale * kMomentumUnit));  // Σ = ½(S + Sᵀ)
    }
    float zero = 0, none = 0;
    sum_over_block(e2, zero, none);
    if (!decide(e2, sound)) return false;
    {
      WideValues normal;
      normal.clear();
      Products::add_plain(normal, wide_, small_[0], x_in_);
      const float back = 1 / (kUnit * kXScale * inverse_mu_);
      wide_.for_each_pair([&](int i, int j, int h, int, int) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) values.at[i][j][e] -= back * normal.at[i][j][e];
      });
    }
    write(m(), values);
    float m2 = squared_norm(values);
    sum_over_block(m2, zero, none);
    take_unit(m2);
    store(m_in_, wide_, values, kMomentumUnit * inverse_mu_);
    __syncthreads();

    // The second look: Ω of the direction as it is stored, and how much of S is Z.
    constexpr float kOfS = 1 / (kXScale * kMomentumUnit);
    NarrowValues turn;
    turn.clear();
    Products::add_transposed(turn, narrow_, m_in_, x_in_);
    float s2 = kOfS * kOfS * squared_norm(turn);
    turn.scale(-1);
    Products::add_transposed(turn, narrow_, x_in_, m_in_);
    turn.scale(0.5f * kOfS);  // Ω = ½(S − Sᵀ)
    store(small_[0], narrow_, turn, kUnit);
    float omega2 = squared_norm(turn);
    sum_over_block(s2, omega2, none);

    // ‖W‖² = 2(tr T − ‖Z‖²) − ‖Ω‖², ‖Z‖² = ‖S‖² − ‖Ω‖²; rounding may take them below zero.
    const float trace = m2 * inverse_mu_ * inverse_mu_, z2 = fmaxf(0.f, s2 - omega2);
    const float tau = signed_step(sqrtf(fmaxf(0.f, 2 * (trace - z2) - omega2)), rate);
    const float theta = tau / inverse_mu_, size = fabsf(theta);
    const float unit = power_below(kMostHalf / (size * size * (0.5f + 0.25f * size)));
    {
      NarrowValues f;
      f.clear();
      Products::add_transposed(f, narrow_, m_in_, m_in_);
      f.scale(1 / (kMomentumUnit * kMomentumUnit));  // T
      // (C − τI)μ = −(θ²/2)Ω − (θ³/4)T
      combine(turn, f,
              [&](float omega, float gram) { return -0.5f * theta * theta * (omega + 0.5f * theta * gram); });
      f.scale(-kUnit * kUnit);
      Products::add_transposed(f, narrow_, small_[0], small_[0]);
      f.scale(-1 / (kUnit * kUnit));  // R = T + Ω² = T − ΩΩᵀ
      store(small_[1], narrow_, f, kUnit);
      __syncthreads();
      // F = −(θ²/2)R + (θ³/4)ΩR = (θ³/4)(−(2/θ)R + ΩR), where θ = 0 must not divide; R is symmetric
      const float divisor = fminf(theta, -1e-20f);
      f.scale(-2 * kUnit * kUnit / divisor);
      Products::add_transposed(f, narrow_, small_[0], small_[1]);
      f.scale(0.25f * theta * theta * divisor / (kUnit * kUnit));
      __syncthreads();
      store(small_[0], narrow_, f, unit);
      store(small_[1], narrow_, turn, unit);
    }
    __syncthreads();
    WideValues sum;
    sum.clear();
    Products::add_plain(sum, wide_, small_[0], x_in_);
    sum.scale(kMomentumUnit / kXScale);
    Products::add_plain(sum, wide_, small_[1], m_in_);
    // Y = x + τM + Fx + (C − τI)M
    move(values, sum, 1 / (unit * kMomentumUnit));
    read_pairs(m(), [&](int i, int j, int h, float first, float second) {
      values.at[i][j][2 * h] += tau * first;
      values.at[i][j][2 * h + 1] += tau * second;
    });
    return true;
  }

  /// From M to Ox, which is written, and to Y, for a square matrix. Returns whether it moves.
  __device__ bool step_square(WideValues& y, float rate, float e2, bool sound) {
    NarrowValues o;
    o.clear();
    Products::add_transposed(o, narrow_, x_in_, m_in_);
    o.scale(-1);
    Products::add_transposed(o, narrow_, m_in_, x_in_);
    o.scale(0.5f / (kXScale * kMomentumUnit));  // O = ½(Sᵀ − S)
    store(small_[0], narrow_, o, kUnit);
    float o2 = squared_norm(o), none = 0;
    sum_over_block(e2, o2, none);
    if (!decide(e2, sound)) return false;
    // D = θO + (θ²/2)O² + (θ³/4)O³ = θO + (θ²/2)O N with N = O + (θ/2)O², of which the product takes the
    // transpose, −O + (θ/2)O².
    const NarrowMatrix other{m_in_.data};  // where M̃ was: N, and then D
    const float tau = signed_step(sqrtf(o2), rate), theta = tau / inverse_mu_;
    NarrowValues d;
    d.clear();
    Products::add_transposed(d, narrow_, small_[0], small_[0]);
    combine(d, o, [&](float squared, float value) {  // O² = −OOᵀ
      return -0.5f * theta * squared / (kUnit * kUnit) - value;
    });
    const float n_unit = power_below(kMostHalf / (1 + fabsf(theta)));
    store(other, narrow_, d, n_unit);
    __syncthreads();
    d.clear();
    Products::add_transposed(d, narrow_, small_[0], other);
    combine(d, o, [&](float product, float value) {
      return theta * value + 0.5f * theta * theta / (kUnit * n_unit) * product;
    });
    const float size = fabsf(theta) * sqrtf(o2);
    const float unit = power_below(kMostHalf / (size * (1 + size * (0.5f + 0.25f * size))));
    __syncthreads();
    store(other, narrow_, d, unit);
    {
      WideValues next;
      next.clear();
      Products::add_plain(next, wide_, small_[0], x_in_);
      next.scale(1 / (kUnit * kXScale * inverse_mu_));
      write(m(), next);  // M = Ox
    }
    __syncthreads();
    WideValues sum;
    sum.clear();
    Products::add_plain(sum, wide_, other, x_in_);
    move(y, sum, 1 / (unit * kXScale));  // Y = x + Dx
    return true;
  }

  /// Y ← its polar factor: E = Y Yᵀ − I, Y ← Y − ½E Y until E was small.
  __device__ void polish(WideValues& y) const {
    for (int round = 0; round < kMostRounds; ++round) {
      __syncthreads();  // all warps are done with what is overwritten
      store(x_in_, wide_, y, kXScale);
      if constexpr (Products::kPieces == 2) {
        wide_.for_each_pair([&](int i, int j, int h, int row, int column) {
          const float first = y.at[i][j][2 * h] * kXScale, second = y.at[i][j][2 * h + 1] * kXScale;
          Products::store(m_in_.at(row, column), Products::rest(first) * kRestScale,
                          Products::rest(second) * kRestScale);
        });
      }
      sum_rows(y);
      __syncthreads();
      const float e2 = take_off_half_of_defect(y);
      if (e2 <= kClose * kClose) return;
    }
  }

  /// One round. Returns ‖E‖².
  __device__ float take_off_half_of_defect(WideValues& y) const {
    NarrowValues e;
    e.clear();
    if constexpr (Products::kPieces == 2) {  // H₂H₁ᵀ + H₁H₂ᵀ, and then H₁H₁ᵀ
      Products::add_transposed(e, narrow_, m_in_, x_in_);
      Products::add_transposed(e, narrow_, x_in_, m_in_);
      e.scale(1 / kRestScale);
    }
    Products::add_transposed(e, narrow_, x_in_, x_in_);
    e.scale(1 / (kXScale * kXScale));
    narrow_.for_each_pair([&](int i, int j, int h, int row, int column) {
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        if (row == column + u) e.at[i][j][2 * h + u] = row_sum(row) - one_at(row, row);
      }
    });
    float e2 = squared_norm(e), zero = 0, none = 0;
    store(small_[0], narrow_, e, -0.5f * kUnit);
    sum_over_block(e2, zero, none);
    WideValues sum;
    sum.clear();
    Products::add_plain(sum, wide_, small_[0], x_in_);
    add(y, sum, 1 / (kUnit * kXScale));
    return e2;
  }

  /// The sums of squares of rows, each warp's of its columns.
  using RowSumsOfWarps = float[Block::kAcross][Block::kP];
  static __device__ RowSumsOfWarps& row_sums() {
    __shared__ RowSumsOfWarps sums;
    return sums;
  }
  __device__ void sum_rows(const WideValues& y) const {
    const int lane = Wide::lane();
#pragma unroll
    for (int i = 0; i < Wide::kDown; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < Wide::kAcross; ++j) {
          const float first = y.at[i][j][2 * h], second = y.at[i][j][2 * h + 1];
          sum += first * first + second * second;
        }
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (lane % 4 == 0) row_sums()[across_][wide_.row + 16 * i + 8 * h + lane / 4] = sum;
      }
    }
  }
  __device__ float row_sum(int row) const {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < Block::kAcross; ++w) sum += row_sums()[w][row];
    return sum;
  }

  /// a = rule(a, b) for every entry.
  template <class Rule>
  __device__ void combine(NarrowValues& a, const NarrowValues& b, Rule rule) const {
    narrow_.for_each_pair([&](int i, int j, int h, int, int) {
#pragma unroll
      for (int e = 2 * h; e < 2 * h + 2; ++e) a.at[i][j][e] = rule(a.at[i][j][e], b.at[i][j][e]);
    });
  }
  /// Y ← x + by·sum, x read a second time, from the cache: kept in registers it would have to be spilled.
  __device__ void move(WideValues& y, const WideValues& sum, float by) const {
    read_pairs(x(), [&](int i, int j, int h, float first, float second) {
      y.at[i][j][2 * h] = first + by * sum.at[i][j][2 * h];
      y.at[i][j][2 * h + 1] = second + by * sum.at[i][j][2 * h + 1];
    });
  }
  __device__ void add(WideValues& a, const WideValues& b, float by) const {
    wide_.for_each_pair([&](int i, int j, int h, int, int) {
#pragma unroll
      for (int e = 2 * h; e < 2 * h + 2; ++e) a.at[i][j][e] += by * b.at[i][j][e];
    });
  }

  const Recipe& recipe_;
  const SmallStack& stack_;
  int index_;  // of the matrix in its stack
  Wide wide_;
  Narrow narrow_;
  int across_;
  WideMatrix x_in_, m_in_;  // x and M̃ in shared memory; in polish() Y and what its first pieces leave
  NarrowMatrix small_[Block::kNarrowMatrices];
  float g2_ = 0, inverse_mu_ = 1;
};

template <class Block>
__global__ void __launch_bounds__(Block::kThreads,
                                  kRegisters / (Block::kThreads * Block::Products::kRegistersPerThread))
    small_step_kernel(const __grid_constant__ SmallList list, const __grid_constant__ Recipe recipe) {
#ifdef __CUDACC__
  extern __shared__ __align__(128) char memory[];
#else  // a test runs the kernel on the CPU (tests/kernels/cuda_on_cpu)
  char* memory = reinterpret_cast<char*>(cuda_on_cpu::dynamic_memory());
#endif
  SmallStep<Block>(list, recipe, memory).run();
}

}  // namespace stiefel::cuda
