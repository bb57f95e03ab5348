#pragma once

#include <cstdint>

/// PTX instructions of every card since Ampere (compute capability 8.0), one per function. Addresses of
/// shared memory are 32-bit, as shared_address() of ptx.cuh gives them.
namespace stiefel::ptx {

/// Where the block's dynamic shared memory begins.
__device__ __forceinline__ char* dynamic_shared() {
  extern __shared__ char dynamic_memory[];
  return dynamic_memory;
}

// ---- Copies from global to shared memory past the registers, in groups that a thread waits for.

/// 16 bytes, both ends 16-byte aligned; past the first-level cache.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// Makes this thread's copies since the last commit a group, which may be empty.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most kLeft of this thread's groups are under way.
template <int kLeft>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// ---- Tensor cores. All threads of a warp call these together; lane counts in it.

/// Four matrices of 8×8 halves. Lane 8i + r passes the address of row r of matrix i, 16 bytes, and gets of
/// each matrix two neighboring entries: in row lane/4, from column 2(lane mod 4) on.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// Two of them: the addresses of lanes 16 to 31 are not read.
__device__ __forceinline__ void load_two_matrices(uint32_t (&r)[2], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
}

/// Four of the transposed matrices: in column lane/4, from row 2(lane mod 4) on.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// D (16×8, float32) += A B, A 16×16 and B 16×8 of halves. With g = lane/4 and c = 2(lane mod 4), a thread
/// has
///   of D  (g, c), (g, c + 1), (g + 8, c), (g + 8, c + 1)
///   of A  from (g, c), (g + 8, c), (g, c + 8), (g + 8, c + 8) two neighbors in the row each
///   of B  from (c, g), (c + 8, g) two neighbors in the column each
__device__ __forceinline__ void multiply_add(float& d0, float& d1, float& d2, float& d3,
                                             const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  multiply_add(d[0], d[1], d[2], d[3], a, b0, b1);
}

}  // namespace stiefel::ptx
