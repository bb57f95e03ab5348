#pragma once

#include <cstdint>

/// How the blocks of a cluster hand each other parts of a vector: copies from shared memory to shared memory
/// that report their bytes to a barrier at the receiver, which nobody else need wait for.
namespace stiefel::models::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The same place in the shared memory of another block of the cluster.
__device__ __forceinline__ uint32_t at_peer(uint32_t address, unsigned rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// All threads of all blocks meet.
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// A barrier that completes when as many threads as it was prepared for have told it how many bytes to
/// expect, and they have come.
using Arrival = uint64_t;

__device__ __forceinline__ void prepare(Arrival* arrival, unsigned threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(arrival)), "r"(threads)
               : "memory");
}

/// Makes prepared barriers known to the cluster, before meet_cluster().
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expect(Arrival* arrival, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrival)),
               "r"(bytes)
               : "memory");
}

/// Waits for the barrier's phase of this parity (the first has 0).
__device__ __forceinline__ void wait_for(Arrival* arrival, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(shared_address(arrival)),
      "r"(parity)
      : "memory");
}

/// Makes this thread's writes to shared memory visible to the copies that are started after the next barrier.
__device__ __forceinline__ void show_to_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Starts a copy of `bytes` to the same place at a peer, reported to the peer's barrier.
__device__ __forceinline__ void send(const float* from, unsigned bytes, Arrival* arrival, unsigned rank) {
  const uint32_t source = shared_address(from);
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          at_peer(source, rank)),
      "r"(source), "r"(bytes), "r"(at_peer(shared_address(arrival), rank))
      : "memory");
}

}  // namespace stiefel::models::cuda
