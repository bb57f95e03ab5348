#pragma once

#include "mixed_context.cuh"
#include "mixed_step.h"
#include "pair_tiles.cuh"

/// Whether a matrix may move, and what Cayley ADAM remembers of it.
namespace stiefel::cuda {

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

  /// Whether the momentum can be used: a gradient that is not finite, or so long that MMᵀ would overflow,
  /// moves nothing. The comparisons are false for NaN.
  __device__ bool sound() const { return g2 <= 3.4e30 && m2 <= 3.4e30; }
};

/// Whether a point is near enough to the manifold for the step to draw it in; false for NaN. All threads of
/// the warp must call it.
__device__ inline bool is_near(const Context& c, const Layout& l, const Recipe& recipe) {
  return sum_of_pairs(c, l, &PairNorms::e2) <= recipe.farthest * recipe.farthest;
}

__device__ inline void increment(int64_t* counter) {
  if (counter != nullptr) atomicAdd(reinterpret_cast<unsigned long long*>(counter), 1ull);
}

/// Counts a matrix that stays in place, and moves Cayley ADAM's v and k. All threads of one warp per matrix
/// must call it.
__device__ inline void update_matrix_state(const Context& c, int matrix, const Layout& l,
                                           const Recipe& recipe) {
  Decision& state = c.states[matrix].decision;
  const double sigma2 = recipe.polar.rounds > 0 ? sum_of_pairs(c, l, &PairNorms::sigma2) : 0;
  const bool near = is_near(c, l, recipe);
  if (threadIdx.x % 32 != 0) return;

  state.frozen = !(state.sound && near);
  state.normal = static_cast<float>(sqrt(sigma2));
  state.r = 1;
  if (state.frozen) increment(recipe.skipped);
  if (!near) increment(recipe.off_manifold);
  if (!recipe.adam) return;
  const Matrix& a = c.matrices[matrix];
  double v = *a.v, k = *a.k;
  if (!state.frozen) {
    v = recipe.beta2 * v + (1 - recipe.beta2) * state.g2;  // v ← β₂v + (1 − β₂)‖G‖²_F
    k += 1;
    *a.v = v;
    *a.k = k;
  }
  // r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε), k counted from 1
  const double counted = fmax(k, 1.0);
  state.r = (1 - pow(recipe.beta1, counted)) * sqrt(v / (1 - pow(recipe.beta2, counted)) + recipe.eps);
  if (state.r == 0) state.r = 1;  // ε = 0 and gradients of zero: M is zero too
}

}  // namespace stiefel::cuda
