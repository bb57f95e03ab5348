#include "mixed_context.cuh"
#include "mixed_kernels.h"
#include "tensor_tile.cuh"

// From Ω, Z, S and T to the coefficients F and C of the move: p×p products of halves. Matrices are in units
// of μ, so θ = τμ takes τ's index.

namespace stiefel::cuda {

namespace {

using CoefficientTile = TensorTile<kSmallSide, kSmallSide, 1, 1, Second::kTransposed, 3>;
using Pairs = float2[CoefficientTile::kPairs];

/// The step's length and the scales of its coefficients, the same in every block of a matrix. All threads of
/// the block must call it.
__device__ StepSize step_size(const Context& c, const Layout& l, Decision decision, const Recipe& recipe) {
  const double m2 = momentum_squared(c, l, decision);
  const double mu = unit_of(m2);
  double e2 = 0, omega2 = 0, z2 = 0;
  const int tiles = l.side / kSmallSide;
  for (int i = threadIdx.x; i < lower_count(tiles); i += blockDim.x) {
    const PairNorms pair = c.pairs[l.first_pair + i];
    e2 += pair.e2;
    omega2 += pair.omega2;
    z2 += pair.z2;
  }
  sum_over_block(e2, omega2, z2);
  // ‖W‖²_F = 2 tr T − ‖Ω‖²_F with tr T = ‖M₁‖² − ‖Z‖²; rounding may take it below zero where M vanishes.
  const double norm = mu * sqrt(fmax(0.0, 2 * (m2 / (mu * mu) - z2) - omega2));
  const double alpha = fmin(*recipe.rate, 2 * recipe.q / (norm / decision.r + recipe.eps));
  const double tau = -alpha / decision.r;
  const double theta = tau * mu, size = fabs(theta);
  StepSize result;
  result.tau = static_cast<float>(tau);
  result.theta = static_cast<float>(theta);
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

/// The index of a tile's pair of sums in a p×p matrix of floats, and of halves.
__device__ int64_t float_index(const Layout& l, const TileIndex& where, int row, int column) {
  return static_cast<int64_t>(where.row * kSmallSide + row) * l.side + where.column * kSmallSide + column;
}
__device__ int64_t half_index(const Layout& l, const TileIndex& where, int row, int column) {
  return swizzled_index(where.row * kSmallSide + row, where.column * kSmallSide + column,
                        l.side / kBlockSide);
}

/// A thread's pairs of a p×p matrix, all on their way before the first is needed.
__device__ void read(Pairs& pairs, const CoefficientTile& tile, const float* from, const Layout& l,
                     const TileIndex& where) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    pairs[index] = *reinterpret_cast<const float2*>(from + float_index(l, where, row, column));
  });
}
__device__ void read(Pairs& pairs, const CoefficientTile& tile, const __half* from, const Layout& l,
                     const TileIndex& where) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    const float2 pair =
        __half22float2(*reinterpret_cast<const __half2*>(from + half_index(l, where, row, column)));
    pairs[index] = make_float2(pair.x / kUnit, pair.y / kUnit);
  });
}
__device__ void write(const Pairs& pairs, const CoefficientTile& tile, float* to, const Layout& l,
                      const TileIndex& where) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    *reinterpret_cast<float2*>(to + float_index(l, where, row, column)) = pairs[index];
  });
}
__device__ void write(const Pairs& pairs, const CoefficientTile& tile, __half* to, const Layout& l,
                      const TileIndex& where, float scale = kUnit) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    *reinterpret_cast<__half2*>(to + half_index(l, where, row, column)) =
        __floats2half2_rn(pairs[index].x * scale, pairs[index].y * scale);
  });
}

/// pairs[i] = rule(pairs[i], sum[i]) for both of every pair, the sum in its unit.
template <class Rule>
__device__ void combine(Pairs& pairs, const CoefficientTile& tile, Rule rule) {
  tile.for_each_pair([&](int index, int, int, float first, float second) {
    constexpr float kSquared = kUnit * kUnit;
    pairs[index] =
        make_float2(rule(pairs[index].x, first / kSquared), rule(pairs[index].y, second / kSquared));
  });
}

/// pairs[i] = sum[i], in its unit.
__device__ void take_product(Pairs& pairs, const CoefficientTile& tile) {
  tile.for_each_pair([&](int index, int, int, float first, float second) {
    constexpr float kSquared = kUnit * kUnit;
    pairs[index] = make_float2(first / kSquared, second / kSquared);
  });
}

/// The product A Bᵀ of two p×p matrices of halves, a tile of it.
__device__ void multiply(CoefficientTile& tile, const Context& c, const Layout& l, const TileIndex& where,
                         int64_t a, int64_t b) {
  tile.clear();
  tile.add_product({{{c.square(l, a), where.row}}, c.square(l, b), where.column, 0, l.side / kBlockSide});
}

/// Turns a thread's pairs of a tile into its pairs of the tile's mirror image.
__device__ void mirror(Pairs& pairs, const CoefficientTile& tile) {
  constexpr int kLd = kSmallSide + 1;
  static_assert(kSmallSide * kLd * sizeof(float) <=
                    CoefficientTile::kSharedBytes - 1024 - CoefficientTile::kBarrierBytes,
                "it fits where the operands were");
  float* staged = reinterpret_cast<float*>(tile.memory());
  __syncthreads();
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    staged[row * kLd + column] = pairs[index].x;
    staged[row * kLd + column + 1] = pairs[index].y;
  });
  __syncthreads();
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    pairs[index] = make_float2(staged[column * kLd + row], staged[(column + 1) * kLd + row]);
  });
}

__device__ TileIndex mirror(const TileIndex& where) { return {where.matrix, where.column, where.row, 0}; }

__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    gram_outside(Context c, const TileIndex* indices, Recipe recipe) {
  const TileIndex where = indices[blockIdx.x], across = mirror(where);
  const bool apart = where.row != where.column;
  const Layout& l = c.layouts[where.matrix];
  const StepSize size = step_size(c, l, c.states[where.matrix].decision, recipe);
  CoefficientTile tile;
  multiply(tile, c, l, where, l.st, l.st);
  Pairs t, b;
  read(t, tile, c.floats(l.t_wide), l, where);
  combine(t, tile, [](float gram, float seen) { return gram - seen; });  // R = T − SᵀS
  write(t, tile, c.floats(l.t_wide), l, where);
  write(t, tile, c.halves(l.r), l, where);
  multiply(tile, c, l, where, l.omega, l.omega);
  read(b, tile, c.halves(l.omega), l, where);
  if (apart) {
    mirror(t, tile);
    write(t, tile, c.floats(l.t_wide), l, across);
    write(t, tile, c.halves(l.r), l, across);
    mirror(t, tile);
  }
  combine(t, tile, [](float r, float squared) { return r + squared; });  // T ← R − Ω² = R + ΩΩᵀ
  write(t, tile, c.halves(l.t), l, where);
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

__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    first_products(Context c, const TileIndex* indices) {
  const TileIndex where = indices[blockIdx.x];
  const Layout& l = c.layouts[where.matrix];
  const float theta = c.states[where.matrix].size.theta;
  CoefficientTile tile;
  Pairs f, pairs;
  // F = −(θ²/2)R + (θ³/4)ΩR − θ(Z + θBZ) − ½E, in row form
  multiply(tile, c, l, where, l.omega, l.r);
  read(f, tile, c.floats(l.t_wide), l, where);
  for (float2& pair : f) pair = make_float2(-0.5f * theta * theta * pair.x, -0.5f * theta * theta * pair.y);
  const float cube = 0.25f * theta * theta * theta;
  combine(f, tile, [&](float sum, float product) { return sum + cube * product; });
  take_product(pairs, tile);
  write(pairs, tile, c.halves(l.q), l, where);
  read(pairs, tile, c.halves(l.z), l, where);
  for (int i = 0; i < CoefficientTile::kPairs; ++i)
    f[i] = make_float2(f[i].x - theta * pairs[i].x, f[i].y - theta * pairs[i].y);
  read(pairs, tile, c.floats(l.e), l, where);
  for (int i = 0; i < CoefficientTile::kPairs; ++i)
    f[i] = make_float2(f[i].x - 0.5f * pairs[i].x, f[i].y - 0.5f * pairs[i].y);
  multiply(tile, c, l, where, l.b, l.z);
  combine(f, tile, [&](float sum, float product) { return sum - theta * theta * product; });
  write(f, tile, c.floats(l.f_part), l, where);
  if (where.row < where.column) return;
  multiply(tile, c, l, where, l.t, l.t);
  take_product(pairs, tile);
  write(pairs, tile, c.floats(l.t_squared), l, where);
}

__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    last_product(Context c, const TileIndex* indices) {
  const TileIndex where = indices[blockIdx.x];
  const Layout& l = c.layouts[where.matrix];
  const State state = c.states[where.matrix];
  CoefficientTile tile;
  multiply(tile, c, l, where, l.q, l.omega);
  const float theta = state.size.theta, theta2 = theta * theta;
  Pairs p;
  // A₄ = T² − ΩRΩ, and ΩRΩ = −(ΩR)Ωᵀ; P = (θ⁴/8)A₄
  read(p, tile, c.floats(l.t_squared), l, where);
  combine(p, tile,
          [&](float squared, float product) { return 0.125f * theta2 * theta2 * (squared + product); });
  const auto finish = [&](const TileIndex& target) {
    Pairs f, t;
    read(f, tile, c.floats(l.f_part), l, target);
    for (int i = 0; i < CoefficientTile::kPairs; ++i) f[i] = make_float2(f[i].x + p[i].x, f[i].y + p[i].y);
    write(f, tile, c.halves(l.f), l, target, state.size.f_scale);
    // (C − τI)/τ = −(θ/2)Ω − (θ²/4)T + P
    read(f, tile, c.halves(l.omega), l, target);
    read(t, tile, c.halves(l.t), l, target);
    for (int i = 0; i < CoefficientTile::kPairs; ++i) {
      f[i] = make_float2(p[i].x - 0.5f * theta * f[i].x - 0.25f * theta2 * t[i].x,
                         p[i].y - 0.5f * theta * f[i].y - 0.25f * theta2 * t[i].y);
    }
    write(f, tile, c.halves(l.c), l, target, state.size.tau * state.size.c_scale);
  };
  finish(where);
  if (where.row != where.column) {
    mirror(p, tile);
    finish(mirror(where));
  }
}

}  // namespace

cudaError_t allow_coefficients() {
  for (const auto error : {allow_shared(gram_outside, CoefficientTile::kSharedBytes),
                           allow_shared(first_products, CoefficientTile::kSharedBytes),
                           allow_shared(last_product, CoefficientTile::kSharedBytes)}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

void find_gram_outside(const Context& c, DeviceList<TileIndex> pairs, const Recipe& recipe,
                       cudaStream_t stream) {
  gram_outside<<<pairs.count, CoefficientTile::kThreads, CoefficientTile::kSharedBytes, stream>>>(
      c, pairs.entries, recipe);
}

void multiply_coefficients(const Context& c, DeviceList<TileIndex> squares, cudaStream_t stream) {
  first_products<<<squares.count, CoefficientTile::kThreads, CoefficientTile::kSharedBytes, stream>>>(
      c, squares.entries);
}

void finish_coefficients(const Context& c, DeviceList<TileIndex> pairs, cudaStream_t stream) {
  last_product<<<pairs.count, CoefficientTile::kThreads, CoefficientTile::kSharedBytes, stream>>>(
      c, pairs.entries);
}

}  // namespace stiefel::cuda
