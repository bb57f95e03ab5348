#pragma once

#include "src/cuda/ptx.cuh"

/// How the blocks of a cluster send each other parts of a vector: copies from shared memory to shared memory
/// that report their bytes to a barrier at the receiver, which no other thread need wait for.
namespace stiefel::models::cuda::cluster {

/// A barrier in shared memory, the same address in every block. Its phase ends when as many threads as it was
/// initialized for have arrived, each with the number of bytes to expect, and the bytes have come.
using Arrival = uint64_t;

__device__ __forceinline__ void prepare(Arrival* arrival, unsigned threads) {
  ptx::init_barrier(ptx::shared_address(arrival), threads);
}

__device__ __forceinline__ void expect(Arrival* arrival, unsigned bytes) {
  ptx::arrive_expecting(ptx::shared_address(arrival), bytes);
}

/// Waits for the barrier's phase of this parity (the first has 0).
__device__ __forceinline__ void wait_for(Arrival* arrival, unsigned parity) {
  ptx::wait_acquire_block(ptx::shared_address(arrival), parity);
}

/// Starts a copy of `bytes` to the same address at a peer, reported to the peer's barrier.
__device__ __forceinline__ void send(const float* from, unsigned bytes, Arrival* arrival, unsigned rank) {
  const uint32_t source = ptx::shared_address(from);
  ptx::copy_to_peer(ptx::peer_address(source, rank), source, bytes,
                    ptx::peer_address(ptx::shared_address(arrival), rank));
}

}  // namespace stiefel::models::cuda::cluster
