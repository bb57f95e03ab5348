#pragma once

#include <cstdint>

#include "generation.h"
#include "tile_shape.cuh"
#ifdef __CUDACC__
#include "ptx.cuh"
#include "ptx_ampere.cuh"
#else  // a test runs the kernels on the CPU (tests/kernels/cuda_on_cpu)
#include <ptx_on_cpu.h>
#endif

namespace stiefel::cuda::STIEFEL_KERNELS {

/// A tile for every card since Ampere: all threads load the operands by cp.async, each warp multiplies 16
/// rows of every 64 by mma.sync, so that its threads hold the sums that a wgmma of Hopper would give them.
///
/// A stage is a block of the inner dimension, and there are as many as fit into the 99 KB of shared memory
/// that the smallest of these cards lets a block have, at most kMostStages. One barrier per round: behind it
/// the stage that the next copies go to has been read by all.
template <int kM, int kN, int kTeamsM, int kTeamsN, Second kSecond, int kMostStages>
struct TensorTile : TileShape<kM, kN, kTeamsM, kTeamsN, kSecond> {
  using Base = TileShape<kM, kN, kTeamsM, kTeamsN, kSecond>;
  using Base::kThreads;
  using typename Base::Job;

  static constexpr int kThreadsWithProducer = kThreads;  // there is none
  static constexpr int kMostBytes = 96 * 1024;           // less what kernels have beside the stages
  static constexpr int kFitting = kMostBytes / Base::kStageBytes;
  static constexpr int kStages = kFitting < kMostStages ? kFitting : kMostStages;
  static_assert(kStages >= 2, "a stage is loaded while another is multiplied");
  static constexpr int kMemoryBytes = kStages * Base::kStageBytes;
  static constexpr int kSharedBytes = kMemoryBytes;

  /// All threads of the block construct it together, once per kernel.
  __device__ TensorTile() : base_(ptx::shared_address(ptx::dynamic_shared())) {}

  /// kMemoryBytes of shared memory for other uses between products.
  __device__ char* memory() const { return ptx::dynamic_shared(); }

  static __device__ constexpr bool is_producer() { return false; }
  static __device__ void sync() { __syncthreads(); }

  __device__ void clear() {
#pragma unroll
    for (auto& group : this->sum)
#pragma unroll
      for (float& value : group) value = 0;
  }

  __device__ void produce(const Job&) {}

  /// Adds the next `rounds` rounds of a job.
  __device__ void consume(const Job& job, int rounds) {
    if (taken_ == 0) {
      for (int round = 0; round < kStages - 1; ++round) load(job, round);
    }
    for (int i = 0; i < rounds; ++i, ++taken_) {
      ptx::wait_copies<kStages - 2>();  // this thread's of round taken_ have arrived
      __syncthreads();                  // and all others'; and round taken_ − 1 has been read
      load(job, taken_ + kStages - 1);
      multiply(base_ + taken_ % kStages * Base::kStageBytes);
    }
  }

  /// Adds the product of a job.
  __device__ void add_product(const Job& job) {
    __syncthreads();  // after what used the memory in between
    taken_ = 0;
    consume(job, job.to - job.from);
  }

 private:
  /// Starts this thread's copies of a round, one group; an empty one beyond the last.
  __device__ void load(const Job& job, int round) const {
    if (round < job.to - job.from) {
      const uint32_t stage = base_ + round % kStages * Base::kStageBytes;
      Base::for_each_block(job, round, [&](int offset, const __half* block) {
        const char* from = reinterpret_cast<const char*>(block);
#pragma unroll
        for (int at = 0; at < kBlockBytes; at += kThreads * 16) {
          const int here = at + static_cast<int>(threadIdx.x) * 16;
          if (kBlockBytes % (kThreads * 16) == 0 || here < kBlockBytes) {
            ptx::copy_async(stage + offset + here, from + here);
          }
        }
      });
    }
    ptx::commit_copies();
  }

  /// The address of the 16 bytes from (row, 8·chunk) on of swizzled blocks one below the other.
  static __device__ uint32_t chunk_address(uint32_t blocks, int row, int chunk) {
    return blocks + static_cast<uint32_t>(row * 128 + (chunk ^ (row % 8)) * 16);
  }

  __device__ void multiply(uint32_t stage) {
    const int lane = Base::thread() % 32, warp = Base::thread() / 32;
    const uint32_t first = stage + Base::team_row() * Base::kBlocksA * kBlockBytes;
    const uint32_t second = stage + Base::kBytesA + Base::team_column() * Base::kBlocksB * kBlockBytes;
#pragma unroll
    for (int k = 0; k < kBlockSide / 8; k += 2) {  // in chunks
      uint32_t a[Base::kGroups][4];
#pragma unroll
      for (int g = 0; g < Base::kGroups; ++g) {
        // Rows 0 to 7, then 8 to 15, of the left chunk and then of the right one.
        ptx::load_matrices(a[g], chunk_address(first, g * 64 + warp * 16 + lane % 16, k + lane / 16));
      }
#pragma unroll
      for (int j = 0; j < kN / 8; j += 2) {  // two 8-column tiles of the product
        uint32_t b[4];
        if (kSecond == Second::kTransposed) {
          // Rows of B are columns of the product: of the first eight both chunks, then of the next eight.
          ptx::load_matrices(b, chunk_address(second, j * 8 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2));
        } else {
          // Rows of B are the inner dimension: eight, and eight more, of one chunk and then of the next.
          const int chunk = j + lane / 16;
          ptx::load_matrices_transposed(
              b, chunk_address(second + chunk / 8 * kBlockBytes, k * 8 + lane % 16, chunk % 8));
        }
#pragma unroll
        for (int g = 0; g < Base::kGroups; ++g) {
          float* d = this->sum[g] + j * 4;
          ptx::multiply_add(d[0], d[1], d[2], d[3], a[g], b[0], b[1]);
          ptx::multiply_add(d[4], d[5], d[6], d[7], a[g], b[2], b[3]);
        }
      }
    }
  }

  uint32_t base_;
  int taken_ = 0;  // rounds of the job so far
};

}  // namespace stiefel::cuda::STIEFEL_KERNELS
