#pragma once

#include <cstdint>

#include "half_matrix.cuh"
#include "ptx.cuh"
#include "warpgroup.cuh"

/// A tile of a half-precision product by one block: operands through shared memory in a pipeline of bulk
/// copies, products by tensor cores, sums in float32 registers.
namespace stiefel::cuda {

constexpr int kTeamThreads = 128;  // four warps, which the matrix instruction takes together

/// How the second operand lies: its rows are columns of the product (A Bᵀ), or its rows are the inner
/// dimension (A B).
enum class Second { kTransposed, kPlain };

/// A tile of kTeamsM × kTeamsN parts, each of kM×kN, multiples of 64, and the work of one team of warps. The
/// parts of a row of teams share their rows of A, those of a column their columns of the second operand; each
/// row of teams may have an A of its own.
template <int kM, int kN, int kTeamsM, int kTeamsN, Second kSecond, int kStages>
struct TensorTile {
  static constexpr int kTeams = kTeamsM * kTeamsN;
  static constexpr int kThreads = kTeams * kTeamThreads;
  static constexpr int kThreadsWithProducer = kThreads + 32;
  static constexpr int kBlocksA = kM / kBlockSide, kBlocksB = kN / kBlockSide;  // of one part
  static constexpr int kBytesA = kTeamsM * kBlocksA * kBlockBytes;
  static constexpr int kStageBytes = kBytesA + kTeamsN * kBlocksB * kBlockBytes;
  static constexpr int kBarrierBytes = 1024;  // the stages after them must be aligned to 1024 bytes
  static constexpr int kSharedBytes =
      1024 + kBarrierBytes + kStages * kStageBytes;  // alignment, barriers, stages
  static_assert(kM % kBlockSide == 0 && kN % kBlockSide == 0, "parts are whole blocks");
  static_assert(kStages * 8 <= 128 && 128 + kStages * 8 <= kBarrierBytes,
                "full(s) and empty(s) do not overlap");
  static constexpr int kGroups = kM / 64;
  static constexpr int kPairs = kGroups * kN / 4;  // of neighbouring sums that a thread holds

  float sum[kGroups][kN / 2];

  /// All threads of the block construct it together, once per kernel.
  __device__ TensorTile() {
    extern __shared__ char dynamic_memory[];
    base_ = (ptx::shared_address(dynamic_memory) + 1023) & ~1023u;
    memory_ = dynamic_memory + (base_ - ptx::shared_address(dynamic_memory)) + kBarrierBytes;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        ptx::init_barrier(full(s), 1);
        ptx::init_barrier(empty(s), kThreads / 32);
      }
      ptx::publish_barriers();
    }
    __syncthreads();
  }

  /// Shared memory for other uses between products.
  __device__ char* memory() const { return memory_; }

  static __device__ int team() { return threadIdx.x / kTeamThreads; }
  static __device__ int team_row() { return team() / kTeamsN; }
  static __device__ int team_column() { return team() % kTeamsN; }
  static __device__ int thread() { return threadIdx.x % kTeamThreads; }

  /// Whether this is the warp besides the teams that loads their operands.
  static __device__ bool is_producer() { return threadIdx.x >= kThreads; }

  /// The teams wait for each other; the producer does not take part.
  static __device__ void sync() { asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory"); }
  static __device__ int threads() { return kThreads; }

  __device__ void clear() {
#pragma unroll
    for (auto& group : sum)
#pragma unroll
      for (float& value : group)
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(value));  // here, not among products
  }

  /// Calls visit(index, row, column, first, second) with two neighbouring sums, for every pair this thread
  /// holds; row and column count from the start of the team's part.
  template <class Visit>
  __device__ void for_each_pair(Visit visit) const {
    const int lane = thread() % 32;
    const int row = thread() / 32 * 16 + lane / 4;
    const int column = lane % 4 * 2;
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        const int index = (g * (kN / 8) + j) * 2;
        visit(index, g * 64 + row, j * 8 + column, sum[g][j * 4], sum[g][j * 4 + 1]);
        visit(index + 1, g * 64 + row + 8, j * 8 + column, sum[g][j * 4 + 2], sum[g][j * 4 + 3]);
      }
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

  /// Loads all stages of a job, while the teams consume them. One thread of the producer calls it.
  __device__ void produce(const Job& job) {
    for (int round = 0; round < job.to - job.from; ++round) load(job, round);
  }

  /// Adds the next rounds that are produced.
  __device__ void consume(int rounds) {
    take(rounds, [](int) {});
  }

  /// Adds the product of a job; the first thread loads the stages in between. For tiles without a producer.
  __device__ void add_product(const Job& job) {
    const int rounds = job.to - job.from;
    ptx::fence_async_proxy();  // after what used the memory in between
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int round = 0; round < min(kStages, rounds); ++round) load(job, round);
    }
    __syncwarp();
    take(rounds, [&](int round) {
      if (threadIdx.x == 0 && round - 1 + kStages < rounds) load(job, round - 1 + kStages);
      __syncwarp();
    });
  }

 private:
  __device__ uint32_t full(int stage) const { return base_ + stage * 8; }
  __device__ uint32_t empty(int stage) const { return base_ + 128 + stage * 8; }
  __device__ uint32_t stage_address(int stage) const { return base_ + kBarrierBytes + stage * kStageBytes; }

  /// Adds rounds; `behind(round)` is called when the stage of the round before has been released.
  template <class Behind>
  __device__ void take(int rounds, Behind behind) {
    for (int round = 0; round < rounds; ++round) {
      const int number = taken_ + round, stage = number % kStages;
      ptx::wait_acquire_cluster(full(stage), number / kStages & 1);
      multiply(stage_address(stage));
      wait_products<1>();  // of the round before, whose stage is free now
      if (round > 0) {
        release((number - 1) % kStages);
        behind(round);
      }
    }
    wait_products<0>();
    // The sums are not read before this point.
#pragma unroll
    for (auto& group : sum)
#pragma unroll
      for (float& value : group) asm volatile("" : "+f"(value)::"memory");
    release((taken_ + rounds - 1) % kStages);
    taken_ += rounds;
  }

  /// This warp has read a stage.
  __device__ void release(int stage) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::arrive(empty(stage));
  }

  /// Loads the blocks of one round. Blocks that do not exist (p rounds up to one block, a tile has two) are
  /// left out: their place in shared memory holds whatever was there, and the sums made of it must not be
  /// read. One thread calls it.
  __device__ void load(const Job& job, int round) const {
    const int number = taken_ + round, stage = number % kStages;
    const bool turned = job.from + round >= job.turn;
    const int k = job.from + round - (turned ? job.turn : 0);
    const int64_t next_a = turned ? job.next_a : 0, next_b = turned ? job.next_b : 0;
    const Operand& b = job.b;
    const auto& rows = job.rows;
    const int column = job.column;
    if (number >= kStages) ptx::wait_acquire_cluster(empty(stage), (number / kStages - 1) & 1);
    int blocks_a[kTeamsM], blocks = 0;
#pragma unroll
    for (int t = 0; t < kTeamsM; ++t) {
      blocks_a[t] = max(0, min(kBlocksA, rows[t].a.down - rows[t].first));
      blocks += blocks_a[t];
    }
    const int columns = kSecond == Second::kPlain ? b.across : b.down;
    const int blocks_b = max(0, min(kTeamsN * kBlocksB, columns - column));
    ptx::arrive_expecting(full(stage), (blocks + blocks_b) * kBlockBytes);
    const uint32_t to = stage_address(stage);
#pragma unroll
    for (int t = 0; t < kTeamsM; ++t) {
      for (int i = 0; i < blocks_a[t]; ++i) {
        const int64_t block = static_cast<int64_t>(rows[t].first + i) * rows[t].a.across + k;
        ptx::copy_bulk(to + (t * kBlocksA + i) * kBlockBytes, rows[t].a.data + next_a + block * kBlockHalves,
                       kBlockBytes, full(stage));
      }
    }
    for (int i = 0; i < blocks_b; ++i) {
      const int64_t block = kSecond == Second::kPlain ? static_cast<int64_t>(k) * b.across + column + i
                                                      : static_cast<int64_t>(column + i) * b.across + k;
      ptx::copy_bulk(to + kBytesA + i * kBlockBytes, b.data + next_b + block * kBlockHalves, kBlockBytes,
                     full(stage));
    }
  }

  __device__ void multiply(uint32_t stage) {
    const uint32_t a = stage + team_row() * kBlocksA * kBlockBytes;
    const uint32_t b = stage + kBytesA + team_column() * kBlocksB * kBlockBytes;
    begin_products();
#pragma unroll
    for (int k = 0; k < kBlockSide / 16; ++k) {
      const uint64_t second = kSecond == Second::kPlain
                                  ? operand_descriptor(b + k * 16 * 128, kBlockBytes, 1024)
                                  : operand_descriptor(b + k * 32, 16, 1024);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        multiply_add<kSecond == Second::kPlain>(
            sum[g], operand_descriptor(a + g * kBlockBytes + k * 32, 16, 1024), second);
      }
    }
    commit_products();
  }

  uint32_t base_;
  char* memory_;
  int taken_ = 0;  // rounds so far: they number the uses of the stages
};

}  // namespace stiefel::cuda
