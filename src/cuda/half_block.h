#pragma once

#include <cstdint>

/// How matrices of halves lie in global memory: as the matrix units want them in shared memory, so that a
/// stage of a product is a few contiguous copies. Plain C++, read on the host and the device.
///
/// A matrix is padded to whole blocks of 64×64 and stored block by block, row of blocks after row of blocks.
/// A block is 64 rows of 128 bytes, a row eight chunks of 16 bytes. Chunk c of row r lies at c XOR (r mod 8):
/// the 128-byte swizzle that wgmma descriptors name, without which the rows of a column of chunks would share
/// banks.
namespace stiefel::cuda {

constexpr int kBlockSide = 64;
constexpr int kBlockHalves = kBlockSide * kBlockSide;
constexpr int kBlockBytes = kBlockHalves * 2;

/// The index of entry (row, column) in a matrix of halves with `across` blocks side by side. Eight entries
/// from a column that is a multiple of 8 are neighbors: a 16-byte chunk.
constexpr int64_t swizzled_index(int row, int column, int across) {
  return (static_cast<int64_t>(row / kBlockSide) * across + column / kBlockSide) * kBlockHalves +
         row % kBlockSide * kBlockSide + ((column % kBlockSide / 8) ^ (row % 8)) * 8 + column % 8;
}

}  // namespace stiefel::cuda
