#include "mixed_kernels.h"
#include "pair_tiles.cuh"

// E = x xᵀ − I and Σ = ½(S + Sᵀ), S = x Mᵀ; and from them whether a matrix may move.

namespace stiefel::cuda {

namespace {

/// ‖G‖² and ‖M‖² of a matrix, the same in every block that computes them: all have kPairThreads threads,
/// which add up in one order.
struct Lengths {
  double g2 = 0, m2 = 0;

  __device__ Lengths(const Context& c, const Layout& l) {
    double none = 0;
    for (int i = threadIdx.x; i < l.p; i += kPairThreads) {
      const RowSums row = c.rows[l.first_row + i];
      g2 += row.g2;
      m2 += row.m2;
    }
    sum_over_block(g2, m2, none);
  }

  /// The scale of M₁.
  __device__ float scale(const Layout& l) const {
    const float m_norm = static_cast<float>(sqrt(m2));
    return fminf(power_below(16 * sqrtf(static_cast<float>(l.p) * static_cast<float>(l.n)) / m_norm),
                 power_below(kMostHalf / m_norm));
  }
};

__device__ void increment(int64_t* counter) {
  if (counter != nullptr) atomicAdd(reinterpret_cast<unsigned long long*>(counter), 1ull);
}

/// A block per matrix: its Decision, and Cayley ADAM's v and k.
__global__ void __launch_bounds__(kPairThreads) update_matrix_state(Context c, Recipe recipe) {
  const int matrix = blockIdx.x;
  const Layout& l = c.layouts[matrix];
  const Lengths lengths(c, l);
  double e2 = 0, zero = 0, none = 0;
  const int tiles = l.side / kSmallSide;
  for (int i = threadIdx.x; i < lower_count(tiles); i += kPairThreads) e2 += c.pairs[l.first_pair + i].e2;
  sum_over_block(e2, zero, none);
  if (threadIdx.x != 0) return;

  // A gradient that is not finite, or so long that MMᵀ would overflow, moves nothing; nor does a point that
  // is too far off the manifold for the step to draw it in. Both comparisons are false for NaN.
  const bool sound = lengths.g2 <= 3.4e30 && lengths.m2 <= 3.4e30;
  const bool near = e2 <= recipe.farthest * recipe.farthest;
  Decision& state = c.states[matrix].decision;
  state.frozen = !(sound && near);
  state.m_scale = lengths.scale(l);
  state.r = 1;
  if (state.frozen) increment(recipe.skipped);
  if (!near) increment(recipe.off_manifold);
  if (!recipe.adam) return;
  const Matrix& a = c.matrices[matrix];
  double v = *a.v, k = *a.k;
  if (!state.frozen) {
    v = recipe.beta2 * v + (1 - recipe.beta2) * lengths.g2;  // v ← β₂v + (1 − β₂)‖G‖²_F
    k += 1;
    *a.v = v;
    *a.k = k;
  }
  // r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε), k counted from 1
  const double counted = fmax(k, 1.0);
  state.r = (1 - pow(recipe.beta1, counted)) * sqrt(v / (1 - pow(recipe.beta2, counted)) + recipe.eps);
}

__global__ void __launch_bounds__(kPairThreads, 2) normal_part(Context c, const TileIndex* indices) {
  __shared__ Mirror mirror;
  const TileIndex index = indices[blockIdx.x];
  const Layout& l = c.layouts[index.matrix];
  const int rows = index.row * kSmallSide, columns = index.column * kSmallSide;
  Entries s, across, e, rest, rest_across;
  gather(s, c, l, l.first_overlap, rows, columns);
  gather(across, c, l, l.first_overlap, columns, rows);
  gather(rest, c, l, l.rest, rows, columns);
  gather(rest_across, c, l, l.rest, columns, rows);
  gather(e, c, l, l.drift, rows, columns);

  const float scale = Lengths(c, l).scale(l);

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
  float e2 = 0;
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
  float zero = 0, nothing = 0;
  sum_over_block(e2, zero, nothing);
  if (threadIdx.x != 0) return;
  c.pairs[l.first_pair + lower_index(index.row, index.column)] = {apart ? 2 * e2 : e2, 0, 0, 0};
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernels themselves (tests/cuda_on_cpu)

void find_normal_part(const Context& c, DeviceList<TileIndex> pairs, cudaStream_t stream) {
  normal_part<<<pairs.count, kPairThreads, 0, stream>>>(c, pairs.entries);
}

void decide_moves(const Context& c, int matrices, const Recipe& recipe, cudaStream_t stream) {
  update_matrix_state<<<matrices, kPairThreads, 0, stream>>>(c, recipe);
}

#endif

}  // namespace stiefel::cuda
