#include "mixed_kernels.h"
#include "pair_tiles.cuh"

// E = x xᵀ − I and Σ = ½(S + Sᵀ), S = x Mᵀ; and what is known of a matrix once its rows have been read.

namespace stiefel::cuda {

namespace {

/// Whether the matrix moves, its momentum's scale and Cayley ADAM's numbers.
__device__ void describe(const Context& c, int matrix, const Recipe& recipe, double g2, double m2,
                         float scale) {
  State& state = c.states[matrix];
  // A gradient that is not finite, or so long that MMᵀ would overflow, moves nothing.
  const bool kept = !(g2 <= 3.4e30) || !(m2 <= 3.4e30);
  state.kept = kept;
  state.m_scale = scale;
  state.r = 1;
  if (kept) atomicAdd(reinterpret_cast<unsigned long long*>(recipe.skipped), 1ull);
  if (!recipe.adam) return;
  const Matrix& a = c.matrices[matrix];
  double v = *a.v, k = *a.k;
  if (!kept) {
    v = recipe.beta2 * v + (1 - recipe.beta2) * g2;  // v ← β₂v + (1 − β₂)‖G‖²_F
    k += 1;
    *a.v = v;
    *a.k = k;
  }
  // r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε), k counted from 1
  const double counted = fmax(k, 1.0);
  state.r = (1 - pow(recipe.beta1, counted)) * sqrt(v / (1 - pow(recipe.beta2, counted)) + recipe.eps);
}

__global__ void __launch_bounds__(kPairThreads, 2) find(Context c, const Place* places, Recipe recipe) {
  __shared__ Mirror mirror;
  const Place place = places[blockIdx.x];
  const Layout& l = c.layouts[place.matrix];
  const int rows = place.row * kSmall, columns = place.column * kSmall;
  Entries s, across, e, rest, rest_across;
  gather(s, c, l, l.first_overlap, rows, columns);
  gather(across, c, l, l.first_overlap, columns, rows);
  gather(rest, c, l, l.rest, rows, columns);
  gather(rest_across, c, l, l.rest, columns, rows);
  gather(e, c, l, l.drift, rows, columns);

  double g2 = 0, m2 = 0, none = 0;
  for (int i = threadIdx.x; i < l.p; i += kPairThreads) {
    const float4 row = c.rows[l.row + i];
    g2 += row.y;
    m2 += row.z;
  }
  sum_over_block(g2, m2, none);
  const float m_norm = static_cast<float>(sqrt(m2));
  const float scale =
      fminf(power_below(16 * sqrtf(static_cast<float>(l.p) * static_cast<float>(l.n)) / m_norm),
            power_below(kMostHalf / m_norm));

  // Rows of M₁ have their own scales. Rows beyond the matrix are zero.
  const auto unscale = [&](Entries& values, int first) {
#pragma unroll
    for (int k = 0; k < kEntries; ++k) {
      const int row = first + Mine::row(k);
      values[k] = row < l.p ? values[k] * c.rows[l.row + row].w : 0;
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
    const bool inside = row < l.p && column < l.p;
    s[k] = inside ? 0.5f * (s[k] + across[k]) * (scale / kXScale) : 0;
    e[k] = inside ? (e[k] + (rest[k] + rest_across[k]) / kRestScale) / (kXScale * kXScale) : 0;
    // A sum of squares: tensor cores truncate as they add up to 1.
    if (row == column && inside) e[k] = c.rows[l.row + row].x - 1;
    e2 += e[k] * e[k];
  }
  store(c.halves(l.sigma), l, rows, columns, s);
  store(c.floats(l.e), l, rows, columns, e);
  const bool apart = place.row != place.column;
  if (apart) {
    mirror.exchange(s);
    mirror.exchange(e);
    store(c.halves(l.sigma), l, columns, rows, s);
    store(c.floats(l.e), l, columns, rows, e);
  }
  float zero = 0, nothing = 0;
  sum_over_block(e2, zero, nothing);
  if (threadIdx.x != 0) return;
  c.pairs[l.pair + place.row * (place.row + 1) / 2 + place.column] =
      make_float4(apart ? 2 * e2 : e2, 0, 0, 0);
  if (place.row == 0) describe(c, place.matrix, recipe, g2, m2, scale);  // one block speaks for the matrix
}

}  // namespace

void find_normal_part(const Context& c, Blocks<Place> pairs, const Recipe& recipe, cudaStream_t stream) {
  find<<<pairs.count, kPairThreads, 0, stream>>>(c, pairs.entries, recipe);
}

}  // namespace stiefel::cuda
