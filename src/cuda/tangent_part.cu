#include "chained_launch.cuh"
#include "matrix_state.cuh"
#include "mixed_kernels.h"

// Ω = ½(S − Sᵀ) and Z = ½(S + Sᵀ) of M₁, which is what is really applied, and T, all in units of μ. For
// Cayley Muon S itself, in two pieces, in place of Z. And whether the matrix moves at all.

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

/// A small tile of S in two pieces.
__device__ void store_pieces(const Context& c, const PolarLayout& to, const Layout& l, int i, int j,
                             const Entries& s) {
  Entries rest;
#pragma unroll
  for (int k = 0; k < kEntries; ++k) rest[k] = (s[k] - __half2float(__float2half_rn(s[k]))) * kRestScale;
  store(c.halves(to.s), l, i, j, s);
  store(c.halves(to.s_rest), l, i, j, rest);
}

template <bool kPolar>
__global__ void __launch_bounds__(kPairThreads, 2)
    tangent_part(Context c, const TileIndex* indices, Recipe recipe) {
  __shared__ Mirror mirror;
  const TileIndex index = indices[blockIdx.x];
  wait_for_earlier_launches();
  const Layout& l = c.layouts[index.matrix];
  const float m_scale = c.states[index.matrix].decision.m_scale;
  const int rows = index.row * kSmallSide, columns = index.column * kSmallSide;
  Entries s, across, t;
  gather(s, c, l, l.overlap, rows, columns);
  gather(across, c, l, l.overlap, columns, rows);
  gather(t, c, l, l.gram, rows, columns);
  const float mu = unit_of(momentum_squared(c, l, m_scale));
  const float s_unit = 1 / (kXScale * m_scale * mu);
  const float t_unit = 1 / (m_scale * mu) / (m_scale * mu);
  mirror.exchange(across);
  Entries omega, z;
  float omega2 = 0, z2 = 0;
#pragma unroll
  for (int k = 0; k < kEntries; ++k) {
    // Beyond p the partial sums hold anything, as in normal_part.cu.
    const bool inside = rows + Mine::row(k) < l.p && columns + Mine::column() < l.p;
    s[k] = inside ? s[k] * s_unit : 0;
    across[k] = inside ? across[k] * s_unit : 0;
    t[k] = inside ? t[k] * t_unit : 0;
    omega[k] = 0.5f * (s[k] - across[k]);
    z[k] = 0.5f * (s[k] + across[k]);
    omega2 += omega[k] * omega[k];
    z2 += z[k] * z[k];
    omega[k] *= kUnit;
    z[k] *= kUnit;
    s[k] *= kUnit;
    across[k] *= kUnit;
  }
  store(c.halves(l.st), l, rows, columns, across);  // Sᵀ
  store(c.halves(l.omega), l, rows, columns, omega);
  store(c.floats(l.t_wide), l, rows, columns, t);
  const bool apart = index.row != index.column;
  if constexpr (kPolar) {  // S in two pieces, where Z and Σ lie
    const PolarLayout to = polar_layout(l);
    store_pieces(c, to, l, rows, columns, s);
    if (apart) {
      mirror.exchange(across);
      store_pieces(c, to, l, columns, rows, across);
    }
  } else {
    store(c.halves(l.z), l, rows, columns, z);
    if (apart) {
      mirror.exchange(z);
      store(c.halves(l.z), l, columns, rows, z);
    }
  }
  if (apart) {
#pragma unroll
    for (float& value : omega) value = -value;
    mirror.exchange(s);
    mirror.exchange(omega);
    mirror.exchange(t);
    store(c.halves(l.st), l, columns, rows, s);
    store(c.halves(l.omega), l, columns, rows, omega);
    store(c.floats(l.t_wide), l, columns, rows, t);
  }
  float none = 0;
  sum_over_block(omega2, z2, none);
  if (threadIdx.x == 0) {
    PairNorms& pair = c.pairs[l.first_pair + lower_index(index.row, index.column)];
    pair.omega2 = (apart ? 2 : 1) * omega2;
    pair.z2 = (apart ? 2 : 1) * z2;
  }
  // Nothing in this launch reads what this writes.
  if (index.row == 0 && index.column == 0 && threadIdx.x < 32) {
    update_matrix_state(c, index.matrix, l, recipe);
  }
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernel itself (tests/cuda_on_cpu)

void find_tangent_part(const Context& c, DeviceList<TileIndex> pairs, const Recipe& recipe,
                       cudaStream_t stream) {
  const auto kernel = recipe.polar.rounds > 0 ? tangent_part<true> : tangent_part<false>;
  launch(kernel, pairs.count, kPairThreads, 0, stream, c, pairs.entries, recipe);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS
