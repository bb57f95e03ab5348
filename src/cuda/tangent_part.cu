#include "mixed_kernels.h"
#include "pair_tiles.cuh"

// Ω = ½(S − Sᵀ) and Z = ½(S + Sᵀ) of the direction that is really applied, and T, all in units of μ.

namespace stiefel::cuda {

namespace {

__global__ void __launch_bounds__(kPairThreads, 2) tangent_part(Context c, const TileIndex* indices) {
  __shared__ Mirror mirror;
  const TileIndex index = indices[blockIdx.x];
  const Layout& l = c.layouts[index.matrix];
  const Decision& decision = c.states[index.matrix].decision;
  const int rows = index.row * kSmallSide, columns = index.column * kSmallSide;
  Entries s, across, t;
  gather(s, c, l, l.overlap, rows, columns);
  gather(across, c, l, l.overlap, columns, rows);
  gather(t, c, l, l.gram, rows, columns);
  const float mu = unit_of(momentum_squared(c, l, decision));
  const float s_unit = 1 / (kXScale * decision.m_scale * mu);
  const float t_unit = 1 / (decision.m_scale * mu) / (decision.m_scale * mu);
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
  store(c.halves(l.z), l, rows, columns, z);
  store(c.floats(l.t_wide), l, rows, columns, t);
  const bool apart = index.row != index.column;
  if (apart) {
#pragma unroll
    for (float& value : omega) value = -value;
    mirror.exchange(s);
    mirror.exchange(omega);
    mirror.exchange(z);
    mirror.exchange(t);
    store(c.halves(l.st), l, columns, rows, s);
    store(c.halves(l.omega), l, columns, rows, omega);
    store(c.halves(l.z), l, columns, rows, z);
    store(c.floats(l.t_wide), l, columns, rows, t);
  }
  float none = 0;
  sum_over_block(omega2, z2, none);
  if (threadIdx.x == 0) {
    PairNorms& pair = c.pairs[l.first_pair + lower_index(index.row, index.column)];  // e2 is normal_part's
    pair.omega2 = (apart ? 2 : 1) * omega2;
    pair.z2 = (apart ? 2 : 1) * z2;
  }
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernel itself (tests/cuda_on_cpu)

void find_tangent_part(const Context& c, DeviceList<TileIndex> pairs, cudaStream_t stream) {
  tangent_part<<<pairs.count, kPairThreads, 0, stream>>>(c, pairs.entries);
}

#endif

}  // namespace stiefel::cuda
