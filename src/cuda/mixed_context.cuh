#pragma once

#include "half_matrix.cuh"
#include "mixed_plan.h"

/// What the kernels of the mixed step share: where the buffers are, and the units of what they hold.
namespace stiefel::cuda {

// Everything that is stored as halves is scaled by powers of two, so that nothing overflows and nothing that
// matters is lost below.
constexpr float kXScale = 64;       // H₁ = 64x, so that only |x| < 1e-6 is subnormal
constexpr float kRestScale = 2048;  // H₂ = 2048·(64x − H₁)
constexpr float kUnit = 16384;      // 1 in the p×p matrices of halves, whose entries are at most 1
constexpr float kMostHalf = 32768;  // a power of two that halves hold
constexpr float kRootUnit = 512;    // 1 in K and P of Cayley Muon's root, whose entries are at most 100

struct Context {
  const Layout* layouts;
  char* workspace;
  Matrix* matrices;
  State* states;
  RowSums* rows;     // per row
  float* thin;       // per thin tile: ‖M₁‖², scaled as M₁ is
  PairNorms* pairs;  // per pair of small tiles
  float* slabs;      // partial sums of products over the long dimension: Partials
  bool chained;      // whether a launch's blocks start before the launch before has ended: chained_launch.cuh

  __device__ __half* halves(int64_t offset) const { return reinterpret_cast<__half*>(workspace + offset); }
  __device__ float* floats(int64_t offset) const { return reinterpret_cast<float*>(workspace + offset); }

  /// As operands: a piece of x or m, and a p×p matrix.
  __device__ Operand piece(const Layout& l, int which) const {
    return {halves(l.pieces[which]), l.side / kBlockSide, l.ld / kBlockSide};
  }
  __device__ Operand square(const Layout& l, int64_t offset) const {
    return {halves(offset), l.side / kBlockSide, l.side / kBlockSide};
  }
};

static_assert(is_plain<Context, 72>, "a parameter of kernels");

/// The context of a plan whose table and workspace lie in device memory.
inline Context context_of(const MixedPlan& plan, const void* table, void* workspace) {
  char* memory = static_cast<char*>(workspace);
  const auto& shared = plan.shared();
  Context c{};
  c.layouts = reinterpret_cast<const Layout*>(static_cast<const char*>(table) + plan.lists().layouts.offset);
  c.workspace = memory;
  c.matrices = reinterpret_cast<Matrix*>(memory + shared.matrices);
  c.states = reinterpret_cast<State*>(memory + shared.states);
  c.rows = reinterpret_cast<RowSums*>(memory + shared.rows);
  c.thin = reinterpret_cast<float*>(memory + shared.thin);
  c.pairs = reinterpret_cast<PairNorms*>(memory + shared.pairs);
  c.slabs = reinterpret_cast<float*>(memory + shared.slabs);
  // Measured on an H200: chained, WRN-16-4 and WRN-52-1 gain 2 and 4 %, VGG-16 loses 4 %.
  c.chained = plan.has_short_launches();
  return c;
}

/// The largest power of two at most `value`; 1 where value is 0 or not finite.
__device__ inline float power_below(float value) {
  if (!(value > 0) || !isfinite(value)) return 1;
  return exp2f(fminf(fmaxf(floorf(log2f(value) - 1e-5f), -100.f), 100.f));
}

/// All threads of a block wait for each other.
struct WholeBlock {
  static __device__ void sync() { __syncthreads(); }
  static __device__ int threads() { return blockDim.x; }
};

/// The sums of a, b and c over the block, or over those of its threads that `Group` names, in every one of
/// them.
template <class Group = WholeBlock, class Number>
__device__ void sum_over_block(Number& a, Number& b, Number& c) {
  __shared__ Number parts[3][32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    a += __shfl_xor_sync(~0u, a, d);
    b += __shfl_xor_sync(~0u, b, d);
    c += __shfl_xor_sync(~0u, c, d);
  }
  Group::sync();
  if (threadIdx.x % 32 == 0) {
    parts[0][threadIdx.x / 32] = a;
    parts[1][threadIdx.x / 32] = b;
    parts[2][threadIdx.x / 32] = c;
  }
  Group::sync();
  a = b = c = 0;
  for (int w = 0; w < Group::threads() / 32; ++w) {
    a += parts[0][w];
    b += parts[1][w];
    c += parts[2][w];
  }
}

/// The sum of value(i), i < count, in every thread. A warp adds it up by itself, so it is the same to the
/// last bit in all blocks of all sizes, and no block waits. All threads of the warp must call it.
template <class Value>
__device__ double sum_by_warp(int count, Value value) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x % 32); i < count; i += 32) sum += value(i);
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  return sum;
}

/// The sum of one of the norms of a matrix's pairs of small tiles.
__device__ inline double sum_of_pairs(const Context& c, const Layout& l, float PairNorms::*norm) {
  return sum_by_warp(lower_count(l.side / kSmallSide),
                     [&](int i) { return c.pairs[l.first_pair + i].*norm; });
}

/// ‖M₁‖² of a matrix, as if M₁ were not scaled.
__device__ inline double momentum_squared(const Context& c, const Layout& l, float m_scale) {
  const double length = sum_by_warp(l.thin_count, [&](int i) { return c.thin[l.first_thin + i]; });
  return length / (static_cast<double>(m_scale) * m_scale);
}

/// μ, a power of two at or above ‖M₁‖: in units of it every entry of the p×p matrices is at most 1.
__device__ inline float unit_of(double squared) {
  if (!(squared > 0) || !isfinite(squared)) return 1;
  return exp2f(fminf(fmaxf(ceilf(log2f(static_cast<float>(sqrt(squared))) + 1e-5f), -100.f), 100.f));
}

}  // namespace stiefel::cuda
