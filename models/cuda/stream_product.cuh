#pragma once

#include "stream_plan.h"
#include "unit.cuh"

/// A matrix in global memory times some vectors in shared memory, for a block of kThreads. Each entry of the
/// matrix goes to the registers of the one thread that multiplies it, for all vectors at once: shared memory
/// in between would be written and read once for nothing. The loads of the next entries are on their way
/// while a thread multiplies; those of a product's first entries, since the product before.
///
/// P parts per number, kRows vectors (rows of the batch), kWidth numbers per load: as many as 16 bytes hold,
/// or 1 where the matrix's rows do not begin at multiples of 16 bytes.
namespace stiefel::models::cuda::stream {

template <int kCount>
struct Floats {
  float part[kCount];
};

/// Neighboring floats, read at once.
template <int kCount>
__device__ __forceinline__ Floats<kCount> read(const float* from) {
  if constexpr (kCount == 4) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    return {{all.x, all.y, all.z, all.w}};
  } else if constexpr (kCount == 2) {
    const float2 all = *reinterpret_cast<const float2*>(from);
    return {{all.x, all.y}};
  } else {
    return {{*from}};
  }
}

/// The same of memory that the kernel only reads. A small matrix stays in the first-level cache.
template <int kCount>
__device__ __forceinline__ Floats<kCount> stream(const float* from) {
  if constexpr (kCount == 4) {
    const float4 all = __ldg(reinterpret_cast<const float4*>(from));
    return {{all.x, all.y, all.z, all.w}};
  } else if constexpr (kCount == 2) {
    const float2 all = __ldg(reinterpret_cast<const float2*>(from));
    return {{all.x, all.y}};
  } else {
    return {{__ldg(from)}};
  }
}

/// sum + k·x, or sum + k̄·x.
template <int P, bool kConjugate>
__device__ __forceinline__ void add_product(Number<P>& sum, const float* k, const float* x) {
  sum.part[0] = fmaf(k[0], x[0], sum.part[0]);
  if constexpr (P == 2) {
    const float imaginary = kConjugate ? -k[1] : k[1];
    sum.part[1] = fmaf(k[0], x[1], sum.part[1]);
    sum.part[0] = fmaf(-imaginary, x[1], sum.part[0]);
    sum.part[1] = fmaf(imaginary, x[0], sum.part[1]);
  }
}

/// K times vectors, each a row of row_floats() with zeros beyond n. Eight lanes share kUnits rows of K, each
/// lane with every eighth load of them; their sums meet by shuffles.
template <int P, int kRows, int kWidth>
class RowProduct {
 public:
  static constexpr int kLanes = 8;
  static constexpr int kGroups = kThreads / kLanes;
  static constexpr int kUnits = kRows == 8 ? 2 : 4;  // that fit in the registers with kRows sums each
  static constexpr int kColumns = kLanes * kWidth;   // that the lanes read at once

  __device__ __forceinline__ RowProduct(const float* k, int n)
      : k_(k), n_(n), lane_(threadIdx.x % kLanes), unit_(threadIdx.x / kLanes * kUnits) {
    fetch(0, 0);
  }

  /// sums[row][unit], of rows of row_floats() too. All threads of the block must call it; a barrier follows
  /// before the sums are read.
  __device__ __forceinline__ void times(const float* vectors, float* sums) {
    const int stride = row_floats(n_, P), chunks = divide_up(n_, kColumns);
    for (int first = 0; first < n_; first += kGroups * kUnits) {
      Number<P> sum[kRows * kUnits]{};
      if (first + unit_ < n_) {
#pragma unroll 2  // k and next_ take turns
        for (int chunk = 0; chunk < chunks; ++chunk) {
          Floats<kWidth * P> k[kUnits];
#pragma unroll
          for (int u = 0; u < kUnits; ++u) k[u] = next_[u];
          const bool more = chunk + 1 < chunks;
          const int following = first + kGroups * kUnits;
          fetch(more ? first : following + unit_ < n_ ? following : 0, more ? chunk + 1 : 0);
          const float* x = vectors + (chunk * kLanes + lane_) * (kWidth * P);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const auto h = read<kWidth * P>(x + r * stride);
#pragma unroll
            for (int w = 0; w < kWidth; ++w) {
#pragma unroll
              for (int u = 0; u < kUnits; ++u)
                add_product<P, false>(sum[r * kUnits + u], k[u].part + w * P, h.part + w * P);
            }
          }
        }
      }
      gather(sum);
      constexpr int kOwn = kRows * kUnits / kLanes;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int index = lane_ * kOwn + i, unit = first + unit_ + index % kUnits;
        if (unit < n_) store(sums + index / kUnits * stride, unit, sum[i]);
      }
    }
  }

 private:
  /// Rows and columns beyond n are read as the last ones: their sums are not written, and the vectors are
  /// zero there.
  __device__ __forceinline__ void fetch(int first, int chunk) {
    const int column = min(chunk * kColumns + lane_ * kWidth, n_ - kWidth);
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
      next_[u] = stream<kWidth * P>(k_ + (min(first + unit_ + u, n_ - 1) * n_ + column) * P);
  }

  /// The sums over the eight lanes, each halving of the lanes halving the sums that a lane adds up.
  template <int kAway = kLanes / 2, int kSums>
  __device__ __forceinline__ void gather(Number<P> (&sum)[kSums]) const {
    constexpr int kRest = kSums * kAway / kLanes;
    static_assert(kRest * kLanes == kSums * kAway && kRest > 0, "each lane gets as many");
    const bool upper = lane_ & kAway;
#pragma unroll
    for (int i = 0; i < kRest; ++i) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const float given = upper ? sum[i].part[p] : sum[i + kRest].part[p];
        const float own = upper ? sum[i + kRest].part[p] : sum[i].part[p];
        sum[i].part[p] = own + __shfl_xor_sync(~0u, given, kAway);
      }
    }
    if constexpr (kAway > 1) gather<kAway / 2>(sum);
  }

  const float* k_;
  int n_, lane_, unit_;
  Floats<kWidth * P> next_[kUnits];
};

/// Kᴴ times vectors, stored as kRows numbers per unit, with zeros beyond n up to a multiple of kDeep. A lane
/// has kWidth columns of K and goes down their rows; `Shares` says which warp takes which.
template <int P, int kRows, int kWidth>
class ColumnProduct {
 public:
  static constexpr int kStrip = strip_columns(kWidth);
  static constexpr int kSlot = kRows * kStrip * P;  // floats: [row][column of the strip]

  __device__ __forceinline__ ColumnProduct(const float* k, int n)
      : k_(k), n_(n), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32), shares_(n, kWidth) {
    const int first = shares_.first(warp_);
    fetch(first / shares_.pieces, first % shares_.pieces);
  }

  /// Writes the parts of the sums to the slots; a barrier follows before sum() reads them.
  __device__ __forceinline__ void times(const float* vectors, float* slots) {
    const int first = shares_.first(warp_), end = shares_.first(warp_ + 1);
    int strip = first / shares_.pieces, piece = first % shares_.pieces;
    Number<P> sum[kRows][kWidth]{};
#pragma unroll 2  // as above
    for (int i = first; i < end; ++i) {
      Floats<kWidth * P> k[kDeep];
#pragma unroll
      for (int d = 0; d < kDeep; ++d) k[d] = next_[d];
      const bool strip_ends = piece + 1 == shares_.pieces, last = i + 1 == end;
      const int next_strip = last ? first / shares_.pieces : strip + strip_ends;
      const int next_piece = last ? first % shares_.pieces : strip_ends ? 0 : piece + 1;
      fetch(next_strip, next_piece);
      const float* x = vectors + piece * (kDeep * kRows * P);
#pragma unroll
      for (int d = 0; d < kDeep; ++d) {
        constexpr int kRead = kRows * P % 4 == 0 ? 4 : 2;  // floats
#pragma unroll
        for (int r = 0; r < kRows; r += kRead / P) {
          const auto delta = read<kRead>(x + (d * kRows + r) * P);
#pragma unroll
          for (int q = 0; q < kRead / P; ++q) {
#pragma unroll
            for (int w = 0; w < kWidth; ++w)
              add_product<P, true>(sum[r + q][w], k[d].part + w * P, delta.part + q * P);
          }
        }
      }
      if (strip_ends || last) {
        float* slot = slots + (warp_ + strip) * kSlot + lane_ * (kWidth * P);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
          for (int w = 0; w < kWidth; ++w) {
            store(slot + r * (kStrip * P), w, sum[r][w]);
            sum[r][w] = {};
          }
        }
      }
      strip = next_strip;
      piece = next_piece;
    }
  }

  /// An entry of the product, its parts added up in the order of the warps.
  __device__ __forceinline__ Number<P> sum(const float* slots, int row, int column) const {
    const int strip = column / kStrip;
    const int from = shares_.warp_of(strip * shares_.pieces);
    const int to = shares_.warp_of((strip + 1) * shares_.pieces - 1);
    const float* part = slots + row * (kStrip * P) + (from + strip) * kSlot;
    Number<P> all{};
    for (int warp = from; warp <= to; ++warp, part += kSlot)
      all = plus(all, 1.0f, load<P>(part, column % kStrip));
    return all;
  }

 private:
  /// Rows and columns beyond n are read as the last ones: the vectors are zero there, and nobody reads the
  /// sums.
  __device__ __forceinline__ void fetch(int strip, int piece) {
    const int column = min(strip * kStrip + lane_ * kWidth, n_ - kWidth);
#pragma unroll
    for (int d = 0; d < kDeep; ++d)
      next_[d] = stream<kWidth * P>(k_ + (min(piece * kDeep + d, n_ - 1) * n_ + column) * P);
  }

  const float* k_;
  int n_, lane_, warp_;
  Shares shares_;
  Floats<kWidth * P> next_[kDeep];
};

}  // namespace stiefel::models::cuda::stream
