#pragma once

#include <cstdint>

/// PTX instructions that CUDA C++ has no function for, one per function, for the mixed step's kernels and the
/// recurrence's. Addresses of shared memory are 32-bit, as shared_address() gives them. Those marked Hopper
/// need compute capability 9.0.
namespace stiefel::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Brings a line of global memory into the second-level cache, for a read some time later.
__device__ __forceinline__ void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// ---- Barriers in shared memory (mbarrier), which count arrivals and the bytes of bulk copies. Hopper.

/// One thread initializes a barrier for a number of arrivals per phase.
__device__ __forceinline__ void init_barrier(uint32_t barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// After init_barrier by the same thread, and before the __syncthreads() or sync_cluster() after which others
/// use the barriers.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives, and adds to the bytes that this phase waits for.
__device__ __forceinline__ void arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Two ways to wait for the phase of a parity (the first phase has 0) to be over. The default semantics of
// try_wait are .acquire at .cta scope. The variants stay apart because each kernel was measured with its own.

/// With .acquire.cluster: also orders what threads of other blocks of the cluster wrote before they arrived.
__device__ __forceinline__ void wait_acquire_cluster(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1; "
      "@!done bra again; }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// With the default semantics, .acquire.cta. Data that bulk copies wrote is visible with either.
__device__ __forceinline__ void wait_acquire_block(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// ---- Bulk copies: contiguous bytes, a multiple of 16, both ends 16-byte aligned, counted by a barrier.
// Hopper.

/// Makes this thread's writes to shared memory visible to what reads it through the async proxy: bulk copies
/// and matrix units. A barrier between the threads follows.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// From global to shared memory.
__device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// ---- Clusters of blocks. Hopper.

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The same address in the shared memory of another block of the cluster.
__device__ __forceinline__ uint32_t peer_address(uint32_t address, unsigned rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// All threads of all blocks of the cluster wait for each other.
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// From this block's shared memory to a peer's. `to` and `barrier` are the peer's addresses.
__device__ __forceinline__ void copy_to_peer(uint32_t to, uint32_t from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace stiefel::ptx
