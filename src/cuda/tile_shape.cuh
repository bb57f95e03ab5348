#pragma once

#include <cstdint>

#include "half_matrix.cuh"

/// What the tiles of both generations have in common: who has which sums, and what is multiplied.
namespace stiefel::cuda {

constexpr int kTeamThreads = 128;  // four warps

/// How the second operand lies: its rows are columns of the product (A Bᵀ), or its rows are the inner
/// dimension (A B).
enum class Second { kTransposed, kPlain };

/// A tile of kTeamsM × kTeamsN parts, each of kM×kN, multiples of 64, and the work of one team of warps. The
/// parts of a row of teams share their rows of A, those of a column their columns of the second operand; each
/// row of teams may have an A of its own.
template <int kM, int kN, int kTeamsM, int kTeamsN, Second kSecond>
struct TileShape {
  static constexpr int kTeams = kTeamsM * kTeamsN;
  static constexpr int kThreads = kTeams * kTeamThreads;
  static constexpr int kBlocksA = kM / kBlockSide, kBlocksB = kN / kBlockSide;  // of one part
  static constexpr int kBytesA = kTeamsM * kBlocksA * kBlockBytes;
  static constexpr int kStageBytes = kBytesA + kTeamsN * kBlocksB * kBlockBytes;
  static_assert(kM % kBlockSide == 0 && kN % kBlockSide == 0, "parts are whole blocks");
  static constexpr int kGroups = kM / 64;
  static constexpr int kPairs = kGroups * kN / 4;  // of neighboring sums that a thread holds

  float sum[kGroups][kN / 2];

  static __device__ int team() { return static_cast<int>(threadIdx.x / kTeamThreads); }
  static __device__ int team_row() { return team() / kTeamsN; }
  static __device__ int team_column() { return team() % kTeamsN; }
  static __device__ int thread() { return static_cast<int>(threadIdx.x % kTeamThreads); }

  /// How many threads take part in sync() of a tile.
  static __device__ int threads() { return kThreads; }

  /// Calls visit(index, row, column, first, second) with two neighboring sums, for every pair this thread
  /// holds of the rows [from, to), multiples of 64; row and column count from the start of the team's part.
  template <class Visit>
  __device__ void for_each_pair(int from, int to, Visit visit) const {
    const int lane = thread() % 32;
    const int row = thread() / 32 * 16 + lane / 4;
    const int column = lane % 4 * 2;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (g * 64 < from || g * 64 >= to) continue;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        const int index = (g * (kN / 8) + j) * 2;
        visit(index, g * 64 + row, j * 8 + column, sum[g][j * 4], sum[g][j * 4 + 1]);
        visit(index + 1, g * 64 + row + 8, j * 8 + column, sum[g][j * 4 + 2], sum[g][j * 4 + 3]);
      }
    }
  }
  template <class Visit>
  __device__ void for_each_pair(Visit visit) const {
    for_each_pair(0, kM, visit);
  }

  /// One A with the block where its rows begin, for a row of teams.
  struct Rows {
    Operand a;
    int first;
  };

  /// What is multiplied: A's rows with the second operand's columns from block `column` on, over the inner
  /// blocks [from, to). From block `turn` on the operands are two others of the same shapes, read from their
  /// first block, whose data lie `next_a` and `next_b` halves after the first ones': a sum of two products.
  struct Job {
    Rows rows[kTeamsM];
    Operand b;
    int column;
    int from, to;
    int turn = 1 << 30;
    int64_t next_a = 0, next_b = 0;
  };

  /// Calls copy(offset, data) for every block of one round of a job: where it goes, in bytes from the start
  /// of the stage, and where it lies. Blocks that do not exist (p rounds up to one block, a tile has two) are
  /// left out: their place in shared memory holds whatever was there, and the sums made of it must not be
  /// read.
  template <class Copy>
  static __device__ void for_each_block(const Job& job, int round, Copy copy) {
    const bool turned = job.from + round >= job.turn;
    const int k = job.from + round - (turned ? job.turn : 0);
    const int64_t next_a = turned ? job.next_a : 0, next_b = turned ? job.next_b : 0;
#pragma unroll
    for (int t = 0; t < kTeamsM; ++t) {
      const auto& [a, first] = job.rows[t];
      for (int i = 0; i < blocks_of_a(job, t); ++i) {
        const int64_t block = static_cast<int64_t>(first + i) * a.across + k;
        copy((t * kBlocksA + i) * kBlockBytes, a.data + next_a + block * kBlockHalves);
      }
    }
    const Operand& b = job.b;
    for (int i = 0; i < blocks_of_b(job); ++i) {
      const int64_t block = kSecond == Second::kPlain ? static_cast<int64_t>(k) * b.across + job.column + i
                                                      : static_cast<int64_t>(job.column + i) * b.across + k;
      copy(kBytesA + i * kBlockBytes, b.data + next_b + block * kBlockHalves);
    }
  }

  /// How many of the blocks of a round there are: of the rows of team row `t`, and of the second operand.
  static __device__ int blocks_of_a(const Job& job, int t) {
    return max(0, min(kBlocksA, job.rows[t].a.down - job.rows[t].first));
  }
  static __device__ int blocks_of_b(const Job& job) {
    const int columns = kSecond == Second::kPlain ? job.b.across : job.b.down;
    return max(0, min(kTeamsN * kBlocksB, columns - job.column));
  }
};

}  // namespace stiefel::cuda
