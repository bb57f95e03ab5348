#pragma once

#include "slab.cuh"

/// A warp's part of K, in its registers from the first step to the last.
namespace stiefel::models::cuda::cluster {

/// Hides from the compiler how an index was computed: otherwise it keeps, for every array, the part of the
/// address that does not change from step to step, and there are no registers for that.
__device__ __forceinline__ size_t opaque(size_t index) {
  asm volatile("" : "+l"(index));
  return index;
}

/// A warp's rows of K or, kAdjoint, of Kᴴ: 16 units × every kSumWarps-th slab, each row scaled for itself.
/// The conjugate is taken in the product.
template <int P, int kBlocks, bool kAdjoint>
class Fragment {
 public:
  using Sizes = SlabSizes<P, kBlocks>;

  /// `backs` is room for the scales of the block's rows, which this makes first: 2^(E−14) of each.
  __device__ __forceinline__ void fill(const float* k, int n, int first_own, float* backs) {
    const auto entry = [&](int row, int column) {
      Number<P> x{};
      if (row < n && column < n)
        x = load<P>(k, opaque(kAdjoint ? static_cast<size_t>(column) * n + row
                                       : static_cast<size_t>(row) * n + column));
      return x;
    };
    const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32;
    for (int own = warp; own < kOwn; own += kThreads / 32) {
      unsigned largest = 0;
      for (int column = lane; column < Sizes::kUnits; column += 32)
        largest = max(largest, size_of(entry(first_own + own, column)));
      largest = __reduce_max_sync(~0u, largest);
      if (lane == 0) backs[own] = __uint_as_float(largest);
    }
    __syncthreads();
    const int unit = warp / kSumWarps * 16, group = lane / 4, q = lane % 4;
    const float ups[2] = {Scale(__float_as_uint(backs[unit + group])).up,
                          Scale(__float_as_uint(backs[unit + group + 8])).up};
#pragma unroll
    for (int s = 0; s < Sizes::kSlabsPerWarp; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_own + unit + group + i % 2 * 8;
        const int column = (s * kSumWarps + first_slab()) * 16 + 2 * q + i / 2 * 8;
        const Number<P> even = entry(row, column), odd = entry(row, column + 1);
#pragma unroll
        for (int p = 0; p < P; ++p) {
          const Pieces x(even.part[p] * ups[i % 2]), y(odd.part[p] * ups[i % 2]);
          k_[p][s].big[i] = word(x.big, y.big);
          k_[p][s].small[i] = word(x.small, y.small);
        }
      }
    }
    __syncthreads();
    if (threadIdx.x < kOwn) backs[threadIdx.x] = Scale(__float_as_uint(backs[threadIdx.x])).back;
    __syncthreads();
  }

  __device__ __forceinline__ static int first_slab() {
    return static_cast<int>(threadIdx.x) / 32 % kSumWarps;
  }

  /// This warp's part of the product with a tile's vector; slabs from `slabs` on hold zeros, and most are
  /// left out.
  __device__ __forceinline__ void times(const float* vector, int slabs, Product (&sum)[P]) const {
    // (a + ib)(c + id) = ac − bd + i(ad + bc). With the conjugate, (a − ib)(c + id) = ac + bd + i(ad − bc):
    // the parts change places, and so do c and d.
    constexpr int kApart = kAdjoint ? P - 1 : 0, kTogether = P - 1 - kApart;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int s = 0; s < Sizes::kSlabsPerWarp; ++s) {
      // Checked only every fourth slab: a branch separates what the compiler may interleave.
      if (s > 0 && s % 4 == 0 && s * kSumWarps >= slabs) break;
      const float* slab = vector + (s * kSumWarps + first_slab()) * Sizes::kSlab;
      const float2 scale = reinterpret_cast<const float2*>(slab + P * Sizes::kPart)[lane % 4];
      const auto right = [&](int p) {
        const uint4 words = reinterpret_cast<const uint4*>(slab + p * Sizes::kPart)[lane];
        return Right{{words.x, words.y}, {words.z, words.w}};
      };
      const Right first = right(kApart);
      if constexpr (P == 2) {
        const Right second = right(kTogether);
        Product apart[2], together[2];
        // In turns: a product waits for the one before it in its own sum.
        multiply_add(apart[0], k_[0][s].small, first.big);
        multiply_add(apart[1], k_[1][s].small, second.big);
        multiply_add(together[0], k_[0][s].small, second.big);
        multiply_add(together[1], k_[1][s].small, first.big);
        multiply_add(apart[0], k_[0][s].big, first.small);
        multiply_add(apart[1], k_[1][s].big, second.small);
        multiply_add(together[0], k_[0][s].big, second.small);
        multiply_add(together[1], k_[1][s].big, first.small);
        multiply_add(apart[0], k_[0][s].big, first.big);
        multiply_add(apart[1], k_[1][s].big, second.big);
        multiply_add(together[0], k_[0][s].big, second.big);
        multiply_add(together[1], k_[1][s].big, first.big);
        add(sum[kApart], scale, apart[0]);
        add(sum[kApart], make_float2(-scale.x, -scale.y), apart[1]);
        add(sum[kTogether], scale, together[0]);
        add(sum[kTogether], scale, together[1]);
      } else {
        add(sum[0], scale, product(k_[0][s], first));
      }
    }
  }

 private:
  /// Two halves in a register. They go through a shuffle that moves nothing, which the compiler cannot look
  /// through: it would otherwise keep the halves apart in two registers and pack them at every use.
  __device__ __forceinline__ static unsigned word(__half low, __half high) {
    const unsigned both =
        static_cast<unsigned>(__half_as_ushort(low)) | static_cast<unsigned>(__half_as_ushort(high)) << 16;
    return __shfl_sync(~0u, both, static_cast<int>(threadIdx.x % 32));
  }

  Left k_[P][Sizes::kSlabsPerWarp];
};

}  // namespace stiefel::models::cuda::cluster
