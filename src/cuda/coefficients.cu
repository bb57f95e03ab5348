#include "chained_launch.cuh"
#include "coefficient_tile.cuh"
#include "mixed_kernels.h"

// From Ω, Z, S and T to the coefficients F and C of the move: p×p products of halves. Matrices are in units
// of μ, so θ = τμ takes τ's place. For Cayley Muon (kPolar) Ω, R and T are those of its direction, which need
// no unit, and F and C are not yet what is applied (polar_direction.cu).

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

/// The step's length and the scales of its coefficients, the same in every block of a matrix. All threads of
/// a warp must call it.
__device__ StepSize step_size(const Context& c, const Layout& l, Decision decision, const Recipe& recipe) {
  const double m2 = momentum_squared(c, l, decision.m_scale);
  const double mu = unit_of(m2);
  const double e2 = sum_of_pairs(c, l, &PairNorms::e2), omega2 = sum_of_pairs(c, l, &PairNorms::omega2),
               z2 = sum_of_pairs(c, l, &PairNorms::z2);
  // ‖W‖²_F = 2 tr T − ‖Ω‖²_F with tr T = ‖M₁‖² − ‖Z‖²; rounding may take it below zero where M vanishes.
  const double norm = mu * sqrt(fmax(0.0, 2 * (m2 / (mu * mu) - z2) - omega2));
  const double alpha = fmin(*recipe.rate, 2 * recipe.q / (norm / decision.r + recipe.eps));
  const double tau = -alpha / decision.r;
  const double theta = tau * mu, size = fabs(theta);
  StepSize result;
  result.tau = result.apart = static_cast<float>(tau);
  result.theta = static_cast<float>(theta);
  result.mu = static_cast<float>(mu);
  result.shrink = result.root_scale = 1;
  const double f_bound =
      size * size * (0.5 + size * (0.25 + size * 0.25)) + size * sqrt(z2) * (1 + size) + 0.5 * sqrt(e2);
  const double c_bound = fabs(tau) * size * (0.5 + size * (0.25 + size * size * 0.25));
  // F H₁ and (C − τI) M₁ are added up in one unit.
  const float of_c = kXScale / decision.m_scale;
  result.f_scale = fminf(power_below(static_cast<float>(kMostHalf / f_bound)),
                         power_below(static_cast<float>(kMostHalf / (c_bound * of_c))));
  result.c_scale = result.f_scale * of_c;
  return result;
}

/// R = T − SᵀS and T ← R − Ω². For Cayley Muon ‖T‖² too; for the others the step's length, and B.
template <bool kPolar>
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    gram_outside(Context c, const TileIndex* indices, Recipe recipe) {
  const TileIndex where = indices[blockIdx.x], across = mirror(where);
  CoefficientTile tile;
  wait_for_earlier_launches();
  const bool apart = where.row != where.column;
  const Layout& l = c.layouts[where.matrix];
  StepSize size{};
  if constexpr (!kPolar) size = step_size(c, l, c.states[where.matrix].decision, recipe);
  multiply(tile, c, l, where, l.st, l.st);
  Pairs t, b;
  read(t, tile, c.floats(l.t_wide), l, where);
  combine(t, tile, [](float gram, float seen) { return gram - seen; });  // R = T − SᵀS
  if constexpr (!kPolar) write(t, tile, c.floats(l.t_wide), l, where);
  write(t, tile, c.halves(l.r), l, where);
  multiply(tile, c, l, where, l.omega, l.omega);
  if constexpr (!kPolar) read(b, tile, c.halves(l.omega), l, where);
  if (apart) {
    mirror(t, tile);
    if constexpr (!kPolar) write(t, tile, c.floats(l.t_wide), l, across);
    write(t, tile, c.halves(l.r), l, across);
    mirror(t, tile);
  }
  combine(t, tile, [](float r, float squared) { return r + squared; });  // T ← R − Ω² = R + ΩΩᵀ
  write(t, tile, c.halves(l.t), l, where);
  if constexpr (kPolar) {
    float t2 = 0, none = 0, nothing = 0;
#pragma unroll
    for (const float2& pair : t) t2 += pair.x * pair.x + pair.y * pair.y;
    sum_over_block(t2, none, nothing);
    if (threadIdx.x == 0) {
      c.pairs[l.first_pair + lower_index(where.row, where.column)].t2 = (apart ? 2 : 1) * t2;
    }
    if (apart) {
      mirror(t, tile);
      write(t, tile, c.halves(l.t), l, across);
    }
    return;
  }
  // B = (C/τ − I)/θ = −½Ω − (θ/4)T: what multiplies Z beyond the identity
  const auto put_b = [&](float sign, const TileIndex& target) {
    Pairs sum;
    for (int i = 0; i < CoefficientTile::kPairs; ++i) {
      sum[i] = make_float2(-0.5f * sign * b[i].x - 0.25f * size.theta * t[i].x,
                           -0.5f * sign * b[i].y - 0.25f * size.theta * t[i].y);
    }
    write(sum, tile, c.halves(l.b), l, target);
  };
  put_b(1, where);
  if (apart) {
    mirror(t, tile);
    mirror(b, tile);
    write(t, tile, c.halves(l.t), l, across);
    put_b(-1, across);
  }
  if (where.row == 0 && where.column == 0 && threadIdx.x == 0) {
    c.states[where.matrix].size = size;  // no block of this launch reads it
  }
}

/// ΩR and T², and F but for P and, for Cayley Muon, what removes Z and E.
template <bool kPolar>
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    first_products(Context c, const TileIndex* indices) {
  const TileIndex where = indices[blockIdx.x];
  CoefficientTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[where.matrix];
  const float theta = c.states[where.matrix].size.theta;
  Pairs f, pairs;
  // F = −(θ²/2)R + (θ³/4)ΩR − θ(Z + θBZ) − ½E, in row form
  multiply(tile, c, l, where, kPolar ? polar_layout(l).omega : l.omega, l.r);
  read(f, tile, c.floats(l.t_wide), l, where);
  for (float2& pair : f) pair = make_float2(-0.5f * theta * theta * pair.x, -0.5f * theta * theta * pair.y);
  const float cube = 0.25f * theta * theta * theta;
  combine(f, tile, [&](float sum, float product) { return sum + cube * product; });
  take_product(pairs, tile);
  write(pairs, tile, c.halves(l.q), l, where);
  if constexpr (!kPolar) {
    read(pairs, tile, c.halves(l.z), l, where);
    combine(f, pairs, [&](float sum, float z) { return sum - theta * z; });
    read(pairs, tile, c.floats(l.e), l, where);
    combine(f, pairs, [](float sum, float e) { return sum - 0.5f * e; });
    multiply(tile, c, l, where, l.b, l.z);
    combine(f, tile, [&](float sum, float product) { return sum - theta * theta * product; });
  }
  write(f, tile, c.floats(l.f_part), l, where);
  if (where.row < where.column) return;
  multiply(tile, c, l, where, l.t, l.t);
  take_product(pairs, tile);
  write(pairs, tile, c.floats(l.t_squared), l, where);
}

/// P; with it F and C − τI as they are applied, or for Cayley Muon F and C/τ − I as they are.
template <bool kPolar>
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    last_product(Context c, const TileIndex* indices) {
  const TileIndex where = indices[blockIdx.x];
  CoefficientTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[where.matrix];
  const StepSize size = c.states[where.matrix].size;
  const int64_t omega = kPolar ? polar_layout(l).omega : l.omega;
  multiply(tile, c, l, where, l.q, omega);
  const float theta = size.theta, theta2 = theta * theta;
  Pairs p;
  // A₄ = T² − ΩRΩ, and ΩRΩ = −(ΩR)Ωᵀ; P = (θ⁴/8)A₄
  read(p, tile, c.floats(l.t_squared), l, where);
  combine(p, tile,
          [&](float squared, float product) { return 0.125f * theta2 * theta2 * (squared + product); });
  const auto finish = [&](const TileIndex& target) {
    Pairs f, t;
    read(f, tile, c.floats(l.f_part), l, target);
    combine(f, p, [](float part, float correction) { return part + correction; });
    if constexpr (kPolar) {
      write(f, tile, c.floats(l.f_part), l, target);
    } else {
      write(f, tile, c.halves(l.f), l, target, size.f_scale);
    }
    // (C − τI)/τ = −(θ/2)Ω − (θ²/4)T + P
    read(f, tile, c.halves(omega), l, target);
    read(t, tile, c.halves(l.t), l, target);
    for (int i = 0; i < CoefficientTile::kPairs; ++i) {
      f[i] = make_float2(p[i].x - 0.5f * theta * f[i].x - 0.25f * theta2 * t[i].x,
                         p[i].y - 0.5f * theta * f[i].y - 0.25f * theta2 * t[i].y);
    }
    if constexpr (kPolar) {
      write(f, tile, c.halves(polar_layout(l).turn), l, target);
    } else {
      write(f, tile, c.halves(l.c), l, target, size.tau * size.c_scale);
    }
  };
  finish(where);
  if (where.row != where.column) {
    mirror(p, tile);
    finish(mirror(where));
  }
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernels themselves (tests/kernels/cuda_on_cpu)

cudaError_t allow_coefficients() {
  return allow_shared(CoefficientTile::kSharedBytes, gram_outside<false>, gram_outside<true>,
                      first_products<false>, first_products<true>, last_product<false>, last_product<true>);
}

void find_gram_outside(const Context& c, DeviceList<TileIndex> pairs, const Recipe& recipe,
                       cudaStream_t stream) {
  const auto kernel = recipe.polar.rounds > 0 ? gram_outside<true> : gram_outside<false>;
  launch(kernel, pairs.count, CoefficientTile::kThreads, CoefficientTile::kSharedBytes, stream, c,
         pairs.entries, recipe);
}

void multiply_coefficients(const Context& c, DeviceList<TileIndex> squares, bool polar, cudaStream_t stream) {
  const auto kernel = polar ? first_products<true> : first_products<false>;
  launch(kernel, squares.count, CoefficientTile::kThreads, CoefficientTile::kSharedBytes, stream, c,
         squares.entries);
}

void finish_coefficients(const Context& c, DeviceList<TileIndex> pairs, bool polar, cudaStream_t stream) {
  const auto kernel = polar ? last_product<true> : last_product<false>;
  launch(kernel, pairs.count, CoefficientTile::kThreads, CoefficientTile::kSharedBytes, stream, c,
         pairs.entries);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS
