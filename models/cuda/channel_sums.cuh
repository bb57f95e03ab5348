#pragma once

#include "eight.cuh"
#include "normalized_relu_kernels.h"

/// Sums over the pixels, two per channel, in one launch. A block takes a tile of channels, eight to each of
/// its lanes, and some of the rows; the block that finishes a tile last adds up what the others left. The
/// order of every sum is fixed by the shape and the device.
namespace stiefel::models::cuda::relu {

constexpr int kSumThreads = 512;
constexpr int kMostLanes = 16;
constexpr int kFewLanes = 2;  // where a block has all rows of its tile

/// How the channels are divided among the blocks.
struct Tiling {
  int lanes;  ///< threads side by side in a row of a block: channels of a tile / 8
  int tiles;
  int rows;  ///< of a block
};

static_assert(is_plain<Tiling, 12, 4>, "a parameter of kernels");

inline Tiling tiling_of(int channels, int threads, int most_lanes) {
  const int eights = channels / kEight;
  int lanes = eights < most_lanes ? eights : most_lanes;
  while (eights % lanes != 0) --lanes;
  return {lanes, eights / lanes, threads / lanes};
}

/// What a thread of a block takes. The last threads of a block may be left over: their row is beyond the
/// block's.
struct ThreadIndex {
  int row, lane, channel;
  bool works;
  int first, step;  ///< of the rows of all that are the thread's

  __device__ explicit ThreadIndex(const Tiling& tiling)
      : row(threadIdx.x / tiling.lanes),
        lane(threadIdx.x % tiling.lanes),
        channel((blockIdx.y * tiling.lanes + lane) * kEight),
        works(row < tiling.rows),
        first(static_cast<int>(blockIdx.x) * tiling.rows + row),
        step(static_cast<int>(gridDim.x) * tiling.rows) {}
};

/// A thread's two sums of each of its channels.
struct Sums {
  Eight first{}, second{};

  __device__ float4 quarter(int i) const {
    const float* of = (i < 2 ? first : second).of + (i % 2) * 4;
    return make_float4(of[0], of[1], of[2], of[3]);
  }
  __device__ void add(int i, const float4& other) {
    float* of = (i < 2 ? first : second).of + (i % 2) * 4;
    of[0] += other.x;
    of[1] += other.y;
    of[2] += other.z;
    of[3] += other.w;
  }
};

constexpr int kQuarters = 4;

/// Adds the rows of a block, in a tree; the sums of row 0 are the whole afterwards.
__device__ inline void add_rows(Sums& sums, const Tiling& tiling, const ThreadIndex& thread, float4* shared) {
  const auto park = [&] {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) shared[i * kSumThreads + threadIdx.x] = sums.quarter(i);
  };
  park();
  __syncthreads();
  for (int left = tiling.rows; left > 1;) {
    const int half = (left + 1) / 2;
    if (thread.row < left - half) {
      const int other = threadIdx.x + half * tiling.lanes;
#pragma unroll
      for (int i = 0; i < kQuarters; ++i) sums.add(i, shared[i * kSumThreads + other]);
      park();
    }
    left = half;
    __syncthreads();
  }
}

/// Adds the sums of all blocks of a tile. True in the threads that hold a total: row 0 of one block.
__device__ inline bool add_blocks(Sums& sums, const Tiling& tiling, const ThreadIndex& thread, float* partial,
                                  unsigned* counters) {
  __shared__ float4 shared[kQuarters * kSumThreads];
  __shared__ bool last;
  add_rows(sums, tiling, thread, shared);
  if (gridDim.x == 1) return thread.row == 0;
  auto* parts = reinterpret_cast<float4*>(partial) +
                static_cast<size_t>(blockIdx.y) * gridDim.x * tiling.lanes * kQuarters;
  const auto part = [&](unsigned block, int i) {
    return parts + (static_cast<size_t>(block) * tiling.lanes + thread.lane) * kQuarters + i;
  };
  if (thread.row == 0) {
#pragma unroll
    for (int i = 0; i < kQuarters; ++i) *part(blockIdx.x, i) = sums.quarter(i);
    __threadfence();
  }
  __syncthreads();
  // The counter wraps to zero by itself.
  if (threadIdx.x == 0) last = atomicInc(counters + blockIdx.y, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (!last) return false;
  __threadfence();
  sums = {};
  if (thread.works) {
    for (unsigned block = thread.row; block < gridDim.x; block += tiling.rows) {
#pragma unroll
      for (int i = 0; i < kQuarters; ++i) sums.add(i, __ldcg(part(block, i)));
    }
  }
  add_rows(sums, tiling, thread, shared);
  return thread.row == 0;
}

}  // namespace stiefel::models::cuda::relu
