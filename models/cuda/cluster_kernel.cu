#include "cluster_launch.cuh"
#include "fragment.cuh"
#include "recurrence_paths.h"

// A cluster of blocks takes some rows of the batch through the whole sequence. Each block has the rows of K
// (back: of Kᴴ) of its 32 units in its registers, as the tensor cores want them, and works on tiles of eight
// rows of the batch:
//
//   a tile's step: wait until h has come from all blocks; the warps multiply, each with its part of the sum
//   over h; the parts are added up, a thread per unit and row; z, the activation; the new h goes to all
//   blocks.
//
// No block waits for the cluster as a whole. A block's two sets of four warps have 16 units each, and the
// block synchronizes twice per step: when the parts are written, and when the new h is. h has two buffers:
// that all of h_t has arrived proves that all sets of all blocks have read h_{t−1}, whose buffer h_{t+1} may
// then take. With two tiles or more a block works on one while the other's h travels. docs/cuda-kernels.md
// has the shared memory.
//
// Each set could synchronize by itself (bar.sync with a number); at n = 512 that is 3 % faster over both
// passes, slower backward, and compute-sanitizer's racecheck does not follow it.

namespace stiefel::models::cuda::cluster {

namespace {

/// What a block takes of the work, and where its warps begin.
struct BlockShare {
  unsigned rank;  // in the cluster
  int slabs;      // of a vector that hold units
  int first_row;  // of the batch
  int tiles;      // that have rows of the batch
  int warp_unit;  // the first unit of this thread's warp, in the block
  __device__ __forceinline__ BlockShare(const RecurrenceShape& shape, int blocks, int tiles_at_most)
      : rank(ptx::cluster_rank()),
        slabs((shape.n + 15) / 16),
        first_row(static_cast<int>(blockIdx.x) / blocks * tiles_at_most * kTileRows),
        tiles(min(tiles_at_most, (shape.batch - first_row + kTileRows - 1) / kTileRows)),
        warp_unit(static_cast<int>(threadIdx.x) / 32 / kSumWarps * 16) {}
};

/// What a thread is responsible for at the end of a tile's step: 16 lanes have a slab's units of one row.
struct Ends {
  int set;
  int in_slab, own, unit;  // the unit in the set's slab, in the block, in the network
  int row;                 // in the tile
  __device__ __forceinline__ explicit Ends(unsigned rank)
      : set(static_cast<int>(threadIdx.x) / kSetThreads),
        in_slab(static_cast<int>(threadIdx.x) % 16),
        own(set * 16 + in_slab),
        unit(static_cast<int>(rank) * kOwn + own),
        row(static_cast<int>(threadIdx.x) % kSetThreads / 16) {}
};

/// Sends a tile's new numbers, this set's units, to all blocks; the set's first warp starts the copies. All
/// threads of the block must call it.
template <int P, int kBlocks>
__device__ __forceinline__ void send_own(float* vector, const Ends& end, const Number<P>& x, Arrival* arrival,
                                         unsigned rank) {
  using Sizes = SlabSizes<P, kBlocks>;
  float* slab = vector + (2 * rank + end.set) * Sizes::kSlab;
  put_unit<P>(slab, end.in_slab, end.row, x);
  ptx::fence_async_proxy();
  __syncthreads();
  if (threadIdx.x % kSetThreads >= 32) return;
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) expect(arrival, Sizes::kComing);
  // Each block begins with its neighbour, so that no block is the first of all.
  if (lane < kBlocks - 1) send(slab, Sizes::kSlab * sizeof(float), arrival, (rank + 1 + lane) % kBlocks);
}

template <int P, int kBlocks>
__device__ __forceinline__ void prepare_arrivals(const Memory<P, kBlocks>& memory) {
  if (threadIdx.x == 0) {
    for (int tile = 0; tile < memory.tiles; ++tile) {
      prepare(memory.arrival(tile, 0), kSets);
      prepare(memory.arrival(tile, 1), kSets);
    }
    ptx::publish_barriers();
  }
  __syncthreads();
  ptx::sync_cluster();
}

/// Fills a block's part of K (back: of Kᴴ); the scale of the row of this thread's unit. All threads of the
/// block must call it.
template <int P, int kBlocks, bool kAdjoint>
__device__ __forceinline__ float fill(Fragment<P, kBlocks, kAdjoint>& k, const float* matrix, int n,
                                      unsigned rank, const Memory<P, kBlocks>& memory) {
  float* backs = memory.parts(0);
  k.fill(matrix, n, static_cast<int>(rank) * kOwn, backs);
  const float back = backs[Ends(rank).own];
  __syncthreads();
  return back;
}

/// K (back: Kᴴ) times a tile's vector of step t − 1, not yet scaled, for this thread's unit and row. `half`
/// of the parts must not be that of the call before. All threads of the block must call it.
template <int P, int kBlocks, bool kAdjoint>
__device__ __forceinline__ Number<P> times_previous(const Fragment<P, kBlocks, kAdjoint>& k,
                                                    const Memory<P, kBlocks>& memory, const Ends& end,
                                                    const BlockShare& share, int t, int tile, int half) {
  using Sizes = SlabSizes<P, kBlocks>;
  if (t > 0) wait_for(memory.arrival(tile, (t + 1) & 1), ((t - 1) >> 1) & 1);
  Product sum[P];
  k.times(memory.vector(tile, (t + 1) & 1), share.slabs, sum);
  put_parts<Sizes, P>(memory.parts(half), share.warp_unit, sum);
  __syncthreads();
  return add_parts<Sizes, P>(memory.parts(half), end.own, end.row);
}

template <int P, bool kTanh, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(RecurrenceShape shape, ForwardPass pass, int tiles_at_most) {
  using Sizes = SlabSizes<P, kBlocks>;
  extern __shared__ __align__(128) float shared[];
  const BlockShare share(shape, kBlocks, tiles_at_most);
  const int n = shape.n, tiles = share.tiles;
  const Memory<P, kBlocks> memory{shared, tiles};
  const size_t stride = static_cast<size_t>(shape.batch) * n;
  Fragment<P, kBlocks, false> k;
  const float back = fill(k, pass.k, n, share.rank, memory);
  const Ends end(share.rank);
  // h₀ in every row, where the first step looks for h_{t−1}.
  for (int block = 0; block < kBlocks; ++block) {
    const int unit = block * kOwn + end.own;
    const Number<P> x = unit < n ? load<P>(pass.h0, unit) : Number<P>{};
    for (int tile = 0; tile < tiles; ++tile)
      put_unit<P>(memory.vector(tile, 1) + (2 * block + end.set) * Sizes::kSlab, end.in_slab, end.row, x);
  }
  const bool real_unit = end.unit < n;
  const float bias = real_unit ? pass.b[end.unit] : 0.0f;
  const Number<P> v = pass.x != nullptr && real_unit ? load<P>(pass.v, end.unit) : Number<P>{};
  prepare_arrivals(memory);
  int half = 0;  // of the parts
  for (int t = 0; t < shape.steps; ++t) {
    for (int tile = 0; tile < tiles; ++tile) {
      const int row = share.first_row + tile * kTileRows + end.row;
      const bool real = real_unit && row < shape.batch;
      const size_t at = opaque(static_cast<size_t>(t) * stride + static_cast<size_t>(row) * n + end.unit);
      // V x_t, or x_t itself: on its way while the warps multiply.
      Number<P> input{};
      if (real) {
        if (pass.x != nullptr) {
          const float* x = pass.x + static_cast<size_t>(t) * shape.batch + row;
          input.part[0] = *x;
          if (end.own == 0 && t + kPrefetchSteps < shape.steps)
            ptx::prefetch_l2(x + static_cast<size_t>(kPrefetchSteps) * shape.batch);
        } else {
          input = load<P>(pass.z, at);
          if (t + kPrefetchSteps < shape.steps) ptx::prefetch_l2(pass.z + (at + kPrefetchSteps * stride) * P);
        }
      }
      const Number<P> product = times_previous(k, memory, end, share, t, tile, half);
      if (pass.x != nullptr) input = plus(Number<P>{}, input.part[0], v);
      const Number<P> z = plus(input, back, product);
      Number<P> state{};
      if (real) state = Unit<P, kTanh>(z, bias).h();
      if (t + 1 < shape.steps)
        send_own<P, kBlocks>(memory.vector(tile, t & 1), end, state, memory.arrival(tile, t & 1), share.rank);
      if (real) {
        store(pass.z, at, z);
        if (pass.all_states) {
          store(pass.states, at, state);
        } else if (t + 1 == shape.steps) {
          store(pass.states, static_cast<size_t>(row) * n + end.unit, state);
        }
      }
      half ^= 1;
    }
  }
  ptx::sync_cluster();  // no block leaves while its memory is read or written by others
}

template <int P, bool kTanh, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(RecurrenceShape shape, BackwardPass pass, int tiles_at_most) {
  using Sizes = SlabSizes<P, kBlocks>;
  extern __shared__ __align__(128) float shared[];
  const BlockShare share(shape, kBlocks, tiles_at_most);
  const int n = shape.n, tiles = share.tiles;
  const Memory<P, kBlocks> memory{shared, tiles};
  const size_t stride = static_cast<size_t>(shape.batch) * n;
  Fragment<P, kBlocks, true> k;
  const float back = fill(k, pass.k, n, share.rank, memory);
  const Ends end(share.rank);
  const bool real_unit = end.unit < n;
  const float bias = real_unit ? pass.b[end.unit] : 0.0f;
  for (int tile = 0; tile < tiles; ++tile) {
    memory.b_sum(tile)[threadIdx.x] = 0;
    store(memory.v_sum(tile), threadIdx.x, Number<P>{});
  }
  prepare_arrivals(memory);
  // Round s makes ∂h_t, t = T − 1 − s, then δ_t; the last, t = −1, makes ∂h₀. What a round reads from memory
  // is on its way while the warps multiply.
  struct Given {
    Number<P> z, g;
    float x;
  };
  const auto row_of = [&](int tile) { return share.first_row + tile * kTileRows + end.row; };
  const auto is_real = [&](int tile) { return real_unit && row_of(tile) < shape.batch; };
  const auto here = [&](int tile) { return opaque(static_cast<size_t>(row_of(tile)) * n + end.unit); };
  const auto read = [&](int s, int tile) {
    const int t = shape.steps - 1 - s;
    Given given{};
    if (t < 0 || !is_real(tile)) return given;
    const size_t at = opaque(static_cast<size_t>(t) * stride + here(tile));
    given.z = load<P>(pass.z, at);
    if (pass.x != nullptr) given.x = pass.x[static_cast<size_t>(t) * shape.batch + row_of(tile)];
    if (pass.all_states || s == 0) given.g = load<P>(pass.gradient, pass.all_states ? at : here(tile));
    if (t >= kPrefetchSteps) {
      ptx::prefetch_l2(pass.z + (at - kPrefetchSteps * stride) * P);
      if (pass.all_states) ptx::prefetch_l2(pass.gradient + (at - kPrefetchSteps * stride) * P);
      if (pass.x != nullptr && end.own == 0)
        ptx::prefetch_l2(pass.x + static_cast<size_t>(t - kPrefetchSteps) * shape.batch + row_of(tile));
    }
    return given;
  };
  const auto send_delta = [&](int s, int tile, const Given& given, const Number<P>& g) {
    Number<P> delta{}, state{};
    if (is_real(tile)) {
      const Unit<P, kTanh> unit(given.z, bias);
      delta = unit.slope(g, memory.b_sum(tile)[threadIdx.x]);
      state = unit.h();
    }
    send_own<P, kBlocks>(memory.vector(tile, s & 1), end, delta, memory.arrival(tile, s & 1), share.rank);
    if (is_real(tile)) {
      const size_t at = opaque(static_cast<size_t>(shape.steps - 1 - s) * stride + here(tile));
      store(pass.delta, at, delta);
      if (s > 0) store(pass.before, at + stride, state);
      store(memory.v_sum(tile), threadIdx.x, plus(load<P>(memory.v_sum(tile), threadIdx.x), given.x, delta));
    }
  };
  for (int tile = 0; tile < tiles; ++tile) {
    const Given given = read(0, tile);
    send_delta(0, tile, given, given.g);
    __syncthreads();  // once per pass: the tiles' first sends one after the other
  }
  int half = 0;
  for (int s = 1; s <= shape.steps; ++s) {
    for (int tile = 0; tile < tiles; ++tile) {
      const Given given = read(s, tile);
      const Number<P> g =
          plus(given.g, back, times_previous(k, memory, end, share, s, tile, half));  // ∂h_{t−1} = Kᴴδ_t
      if (s < shape.steps) {
        send_delta(s, tile, given, g);
      } else if (is_real(tile)) {
        store(pass.before, here(tile), load<P>(pass.h0, end.unit));
        store(pass.h0_rows, here(tile), g);
        pass.b_rows[here(tile)] = memory.b_sum(tile)[threadIdx.x];
        if (pass.v_rows != nullptr) store(pass.v_rows, here(tile), load<P>(memory.v_sum(tile), threadIdx.x));
      }
      half ^= 1;
    }
  }
  ptx::sync_cluster();
}

constexpr int kFew = 8, kMany = 16;  // blocks per cluster
constexpr int kFewUnits = kFew * kOwn, kManyUnits = kMany * kOwn;

template <int kBlocks>
cudaError_t forward_with(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream) {
  if (shape.complex) return launch<forward_kernel<2, false, kBlocks>, 2, kBlocks>(shape, pass, stream);
  if (shape.tanh) return launch<forward_kernel<1, true, kBlocks>, 1, kBlocks>(shape, pass, stream);
  return launch<forward_kernel<1, false, kBlocks>, 1, kBlocks>(shape, pass, stream);
}

template <int kBlocks>
cudaError_t backward_with(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream) {
  if (shape.complex) return launch<backward_kernel<2, false, kBlocks>, 2, kBlocks>(shape, pass, stream);
  if (shape.tanh) return launch<backward_kernel<1, true, kBlocks>, 1, kBlocks>(shape, pass, stream);
  return launch<backward_kernel<1, false, kBlocks>, 1, kBlocks>(shape, pass, stream);
}

}  // namespace

bool fits(int n) {
  if (n < 1 || n > kManyUnits) return false;
  const Room room = n <= kFewUnits ? room_for<forward_kernel<2, false, kFew>, 2, kFew>()
                                   : room_for<forward_kernel<2, false, kMany>, 2, kMany>();
  return room.status == cudaSuccess;
}

cudaError_t forward(const RecurrenceShape& shape, const ForwardPass& pass, cudaStream_t stream) {
  return shape.n <= kFewUnits ? forward_with<kFew>(shape, pass, stream)
                              : forward_with<kMany>(shape, pass, stream);
}

cudaError_t backward(const RecurrenceShape& shape, const BackwardPass& pass, cudaStream_t stream) {
  return shape.n <= kFewUnits ? backward_with<kFew>(shape, pass, stream)
                              : backward_with<kMany>(shape, pass, stream);
}

}  // namespace stiefel::models::cuda::cluster
