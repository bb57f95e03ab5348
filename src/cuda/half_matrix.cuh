#pragma once

#include <cuda_fp16.h>

#include <cstdint>

/// How matrices of halves lie in global memory.
namespace stiefel::cuda {

// Matrices of halves lie in global memory as the matrix units want them in shared memory: block after block
// of 64×64, row after row of blocks, a block's rows of 128 bytes as chunks of 16 whose place is mixed with
// the row's number. A stage of a product is then a few contiguous copies.
constexpr int kDepth = 64;
constexpr int kBlockHalves = kDepth * kDepth;
constexpr int kBlockBytes = kBlockHalves * 2;

/// Where entry (row, column) lies in a matrix of halves with `across` blocks side by side. Eight entries from
/// a column that is a multiple of 8 are neighbours.
__device__ inline int64_t place_of(int row, int column, int across) {
  return (static_cast<int64_t>(row / kDepth) * across + column / kDepth) * kBlockHalves +
         row % kDepth * kDepth + ((column % kDepth / 8) ^ (row % 8)) * 8 + column % 8;
}

/// An operand: its blocks down and across.
struct Operand {
  const __half* data;
  int down;
  int across;
};

}  // namespace stiefel::cuda
