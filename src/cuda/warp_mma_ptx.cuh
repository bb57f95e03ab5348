#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "ptx.cuh"

/// Products of halves by the tensor cores of one warp, Ampere and later: the fragments of
/// mma.sync.m16n8k16 and how ldmatrix fills them from shared memory. All 32 threads of a warp call each
/// function together. tests/kernels/cuda_on_cpu has the same functions for a CPU.
///
/// Thread `lane` has g = lane / 4 and t = lane % 4. A register holds two halves, the lower index first.
///
///     A, 16×16   a[0] (g, 2t), (g, 2t+1)           a[1] the same of row g + 8
///                a[2], a[3] the same of columns 2t + 8, 2t + 9
///     B, 16×8    b0 (2t, g), (2t+1, g)             b1 the same of rows 2t + 8, 2t + 9
///     C, 16×8    c[0], c[1] (g, 2t), (g, 2t+1)     c[2], c[3] the same of row g + 8
///
/// ldmatrix reads 8×8 matrices of halves. Thread 8i + r passes the address of row r of matrix i, 16-byte
/// aligned, and receives in its register i entries (g, 2t), (g, 2t+1) of that matrix, or with .trans
/// (2t, g), (2t+1, g).
namespace stiefel::cuda::warp_mma {

__device__ __forceinline__ void load_four(uint32_t (&to)[4], const __half* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(ptx::shared_address(row))
               : "memory");
}

__device__ __forceinline__ void load_four_transposed(uint32_t (&to)[4], const __half* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(ptx::shared_address(row))
               : "memory");
}

/// Two matrices: the addresses of threads 16 to 31 are not read.
__device__ __forceinline__ void load_two(uint32_t (&to)[2], const __half* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(ptx::shared_address(row))
               : "memory");
}

/// C ← C + AB.
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace stiefel::cuda::warp_mma
