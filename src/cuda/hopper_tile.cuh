#pragma once

#include <cstdint>

#include "generation.h"
#include "ptx.cuh"
#include "tile_shape.cuh"
#include "warpgroup.cuh"

namespace stiefel::cuda::STIEFEL_KERNELS {

/// A tile for Hopper: a pipeline of bulk copies, and products by wgmma, whose four warps are a team.
template <int kM, int kN, int kTeamsM, int kTeamsN, Second kSecond, int kStages>
struct TensorTile : TileShape<kM, kN, kTeamsM, kTeamsN, kSecond> {
  using Base = TileShape<kM, kN, kTeamsM, kTeamsN, kSecond>;
  using Base::kThreads;
  using Base::sum;
  using typename Base::Job;

  static constexpr int kThreadsWithProducer = kThreads + 32;
  static constexpr int kMemoryBytes = kStages * Base::kStageBytes;
  static constexpr int kBarrierBytes = 1024;  // the stages after them must be aligned to 1024 bytes
  static constexpr int kSharedBytes = 1024 + kBarrierBytes + kMemoryBytes;  // alignment, barriers, stages
  static_assert(kStages * 8 <= 128 && 128 + kStages * 8 <= kBarrierBytes,
                "full(s) and empty(s) do not overlap");

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

  /// kMemoryBytes of shared memory for other uses between products.
  __device__ char* memory() const { return memory_; }

  /// Whether this is the warp besides the teams that loads their operands.
  static __device__ bool is_producer() { return threadIdx.x >= kThreads; }

  /// The teams wait for each other; the producer does not take part.
  static __device__ void sync() { asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory"); }

  __device__ void clear() {
#pragma unroll
    for (auto& group : sum)
#pragma unroll
      for (float& value : group)
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(value));  // here, not among products
  }

  /// Loads all stages of a job, while the teams consume them. One thread of the producer calls it.
  __device__ void produce(const Job& job) {
    for (int round = 0; round < job.to - job.from; ++round) load(job, round);
  }

  /// Adds the next rounds of the job that is produced.
  __device__ void consume(const Job&, int rounds) {
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
  __device__ uint32_t stage_address(int stage) const {
    return base_ + kBarrierBytes + stage * Base::kStageBytes;
  }

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

  /// Loads the blocks of one round. One thread calls it.
  __device__ void load(const Job& job, int round) const {
    const int number = taken_ + round, stage = number % kStages;
    if (number >= kStages) ptx::wait_acquire_cluster(empty(stage), (number / kStages - 1) & 1);
    int blocks = Base::blocks_of_b(job);
#pragma unroll
    for (int t = 0; t < kTeamsM; ++t) blocks += Base::blocks_of_a(job, t);
    ptx::arrive_expecting(full(stage), blocks * kBlockBytes);
    const uint32_t to = stage_address(stage);
    Base::for_each_block(job, round, [&](int offset, const __half* block) {
      ptx::copy_bulk(to + offset, block, kBlockBytes, full(stage));
    });
  }

  __device__ void multiply(uint32_t stage) {
    const uint32_t a = stage + Base::team_row() * Base::kBlocksA * kBlockBytes;
    const uint32_t b = stage + Base::kBytesA + Base::team_column() * Base::kBlocksB * kBlockBytes;
    begin_products();
#pragma unroll
    for (int k = 0; k < kBlockSide / 16; ++k) {
      const uint64_t second = kSecond == Second::kPlain
                                  ? operand_descriptor(b + k * 16 * 128, kBlockBytes, 1024)
                                  : operand_descriptor(b + k * 32, 16, 1024);
#pragma unroll
      for (int g = 0; g < Base::kGroups; ++g) {
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

}  // namespace stiefel::cuda::STIEFEL_KERNELS
