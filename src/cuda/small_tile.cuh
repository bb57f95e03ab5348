#pragma once

#include <cuda_runtime_api.h>

/// Which entries of a small matrix a thread has, and how a matrix of entries lies in shared memory.
namespace stiefel::cuda {

/// A warp's part of a matrix, kRows×kColumns from (row, column) on. Thread `lane` has the entries that
/// ptx_ampere.cuh gives it of every 16×8 of them, whichever units compute the products.
template <int kRows_, int kColumns_>
struct WarpTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kDown = kRows / 16, kAcross = kColumns / 8;
  static_assert(kRows % 16 == 0 && kColumns % 8 == 0 && kDown > 0 && kAcross > 0, "whole fragments");

  int row, column;

  /// A thread's entries.
  struct Values {
    float at[kDown][kAcross][4];

    __device__ void clear() {
      for_each([](float& value) { value = 0; });
    }
    template <class Visit>
    __device__ void for_each(Visit visit) {
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) visit(at[i][j][e]);
        }
      }
    }
    __device__ void scale(float by) {
      for_each([=](float& value) { value *= by; });
    }
  };

  /// Another value to the compiler at each call, so that it computes addresses again where they are used
  /// again, instead of keeping a hundred of them in registers throughout the step.
  static __device__ int lane() {
    int lane = static_cast<int>(threadIdx.x % 32);
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(lane));
#endif
    return lane;
  }

  /// visit(i, j, h, row, column) for each of the thread's pairs of neighbors, which are at[i][j][2h] and
  /// at[i][j][2h + 1] of its values.
  template <class Visit>
  __device__ void for_each_pair(Visit visit) const {
    const int thread = lane(), g = thread / 4, t = thread % 4;
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j) visit(i, j, h, row + 16 * i + 8 * h + g, column + 8 * j + 2 * t);
      }
    }
  }
};

/// A matrix in shared memory, without bank conflicts where eight rows of 16 bytes are read at once: a row is
/// an odd number of these chunks, or it is whole lines of 128 bytes in which chunk c lies at c XOR (row mod
/// 8).
template <class Cell_, int kRows_, int kColumns_>
struct SharedMatrix {
  using Cell = Cell_;
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kChunk = 16 / sizeof(Cell);
  static constexpr bool kSwizzled = kColumns % (8 * kChunk) == 0;
  static constexpr int kLd = kSwizzled ? kColumns : kColumns + kChunk;
  static constexpr int kBytes = kRows * kLd * static_cast<int>(sizeof(Cell));
  static_assert(kSwizzled || kColumns / kChunk % 2 == 0, "an odd number of chunks per row");

  Cell* data;

  __device__ Cell* at(int row, int column) const {
    if constexpr (kSwizzled) {
      return data + row * kLd + ((column / kChunk) ^ (row % 8)) * kChunk + column % kChunk;
    } else {
      return data + row * kLd + column;
    }
  }
};

}  // namespace stiefel::cuda
