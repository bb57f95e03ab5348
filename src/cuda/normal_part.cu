#include "chained_launch.cuh"
#include "matrix_state.cuh"
#include "mixed_kernels.h"

// E = x xᵀ − I and Σ = ½(S + Sᵀ), S = x Mᵀ; the scale of M₁, and whether M is finite.

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

__global__ void __launch_bounds__(kPairThreads, 2) normal_part(Context c, const TileIndex* indices) {
  __shared__ Mirror mirror;
  const TileIndex index = indices[blockIdx.x];
  wait_for_earlier_launches();
  const Layout& l = c.layouts[index.matrix];
  const int rows = index.row * kSmallSide, columns = index.column * kSmallSide;
  Entries s, across, e, rest, rest_across;
  gather(s, c, l, l.first_overlap, rows, columns);
  gather(across, c, l, l.first_overlap, columns, rows);
  gather(rest, c, l, l.rest, rows, columns);
  gather(rest_across, c, l, l.rest, columns, rows);
  gather(e, c, l, l.drift, rows, columns);

  const Lengths lengths(c, l);
  const float scale = lengths.scale(l);

  // Rows of M₁ have their own scales. Rows beyond the matrix are zero.
  const auto unscale = [&](Entries& values, int first) {
#pragma unroll
    for (int k = 0; k < kEntries; ++k) {
      const int row = first + Mine::row(k);
      values[k] = row < l.p ? values[k] * c.rows[l.first_row + row].inverse_scale : 0;
    }
  };
  unscale(s, rows);
  unscale(across, columns);
  mirror.exchange(across);
  mirror.exchange(rest_across);
  float e2 = 0, sigma2 = 0, none = 0;
#pragma unroll
  for (int k = 0; k < kEntries; ++k) {
    const int row = rows + Mine::row(k), column = columns + Mine::column();
    // Sums beyond p are not numbers to rely on: rows p and up of H₂ are never written (split_rows.cu), and
    // blocks that do not exist are never loaded (tensor_tile.cuh). Nothing but this selection keeps them out.
    const bool inside = row < l.p && column < l.p;
    s[k] = inside ? 0.5f * (s[k] + across[k]) * (scale / kXScale) : 0;
    e[k] = inside ? (e[k] + (rest[k] + rest_across[k]) / kRestScale) / (kXScale * kXScale) : 0;
    // A sum of squares: tensor cores truncate as they add up to 1.
    if (row == column && inside) e[k] = c.rows[l.first_row + row].x2 - 1;
    e2 += e[k] * e[k];
    sigma2 += s[k] / scale * (s[k] / scale);
  }
  store(c.halves(l.sigma), l, rows, columns, s);
  store(c.floats(l.e), l, rows, columns, e);
  const bool apart = index.row != index.column;
  if (apart) {
    mirror.exchange(s);
    mirror.exchange(e);
    store(c.halves(l.sigma), l, columns, rows, s);
    store(c.floats(l.e), l, columns, rows, e);
  }
  sum_over_block(e2, sigma2, none);
  if (threadIdx.x == 0) {
    PairNorms& pair = c.pairs[l.first_pair + lower_index(index.row, index.column)];
    pair.e2 = (apart ? 2 : 1) * e2;
    pair.sigma2 = (apart ? 2 : 1) * sigma2;
    if (index.row == 0 && index.column == 0) {
      Decision& decision = c.states[index.matrix].decision;
      decision.g2 = lengths.g2;
      decision.m_scale = scale;
      decision.sound = lengths.sound();
    }
  }
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernels themselves (tests/cuda_on_cpu)

void find_normal_part(const Context& c, DeviceList<TileIndex> pairs, cudaStream_t stream) {
  launch(normal_part, pairs.count, kPairThreads, 0, stream, c, pairs.entries);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS
