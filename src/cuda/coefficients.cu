#include "mixed_context.cuh"
#include "mixed_kernels.h"
#include "tensor_tile.cuh"

// From Ω, Z, S and T to the coefficients F and C of the move: p×p products of halves. Matrices are in units
// of μ, so θ = τμ takes τ's place.

namespace stiefel::cuda {

namespace {

using Tile = TensorTile<kSmall, kSmall, 1, 1, Second::kTransposed, 3>;
using Pairs = float2[Tile::kPairs];

/// The step's length and the scales of its coefficients, the same in every block of a matrix.
__device__ State measure(const Context& c, const Layout& l, State state, const Recipe& recipe) {
  const double m2 = momentum_squared(c, l, state);
  const double mu = unit_of(m2);
  double e2 = 0, omega2 = 0, z2 = 0;
  const int tiles = l.side / kSmall;
  for (int i = threadIdx.x; i < tiles * (tiles + 1) / 2; i += blockDim.x) {
    const float4 pair = c.pairs[l.pair + i];
    e2 += pair.x;
    omega2 += pair.y;
    z2 += pair.z;
  }
  sum_over_block(e2, omega2, z2);
  // ‖W‖²_F = 2 tr T − ‖Ω‖²_F with tr T = ‖M₁‖² − ‖Z‖²; rounding may take it below zero where M vanishes.
  const double norm = mu * sqrt(fmax(0.0, 2 * (m2 / (mu * mu) - z2) - omega2));
  const double alpha = fmin(*recipe.rate, 2 * recipe.q / (norm / state.r + recipe.eps));
  const double tau = -alpha / state.r;
  const double theta = tau * mu, size = fabs(theta);
  state.tau = static_cast<float>(tau);
  state.theta = static_cast<float>(theta);
  const double f_bound =
      size * size * (0.5 + size * (0.25 + size * 0.25)) + size * sqrt(z2) * (1 + size) + 0.5 * sqrt(e2);
  const double c_bound = fabs(tau) * size * (0.5 + size * (0.25 + size * size * 0.25));
  // F H₁ and (C − τI) M₁ are added up in one unit.
  const float of_c = kXScale / state.m_scale;
  state.f_scale = fminf(power_below(static_cast<float>(kMostHalf / f_bound)),
                        power_below(static_cast<float>(kMostHalf / (c_bound * of_c))));
  state.c_scale = state.f_scale * of_c;
  return state;
}

/// Where a pair of sums of a tile belongs in a p×p matrix of floats, and of halves.
__device__ int64_t float_place(const Layout& l, const Place& place, int row, int column) {
  return static_cast<int64_t>(place.row * kSmall + row) * l.side + place.column * kSmall + column;
}
__device__ int64_t half_place(const Layout& l, const Place& place, int row, int column) {
  return place_of(place.row * kSmall + row, place.column * kSmall + column, l.side / kDepth);
}

/// A thread's pairs of a p×p matrix, all on their way before the first is needed.
__device__ void read(Pairs& pairs, const Tile& tile, const float* from, const Layout& l, const Place& place) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    pairs[index] = *reinterpret_cast<const float2*>(from + float_place(l, place, row, column));
  });
}
__device__ void read(Pairs& pairs, const Tile& tile, const __half* from, const Layout& l,
                     const Place& place) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    const float2 pair =
        __half22float2(*reinterpret_cast<const __half2*>(from + half_place(l, place, row, column)));
    pairs[index] = make_float2(pair.x / kUnit, pair.y / kUnit);
  });
}
__device__ void write(const Pairs& pairs, const Tile& tile, float* to, const Layout& l, const Place& place) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    *reinterpret_cast<float2*>(to + float_place(l, place, row, column)) = pairs[index];
  });
}
__device__ void write(const Pairs& pairs, const Tile& tile, __half* to, const Layout& l, const Place& place,
                      float scale = kUnit) {
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    *reinterpret_cast<__half2*>(to + half_place(l, place, row, column)) =
        __floats2half2_rn(pairs[index].x * scale, pairs[index].y * scale);
  });
}

/// pairs[i] = rule(pairs[i], sum[i]) for both of every pair, the sum in its unit.
template <class Rule>
__device__ void combine(Pairs& pairs, const Tile& tile, Rule rule) {
  tile.for_each_pair([&](int index, int, int, float first, float second) {
    constexpr float kSquared = kUnit * kUnit;
    pairs[index] =
        make_float2(rule(pairs[index].x, first / kSquared), rule(pairs[index].y, second / kSquared));
  });
}

/// The product A Bᵀ of two p×p matrices of halves, a tile of it.
__device__ void multiply(Tile& tile, const Context& c, const Layout& l, const Place& place, int64_t a,
                         int64_t b) {
  tile.clear();
  tile.add_product({{{c.square(l, a), place.row}}, c.square(l, b), place.column, 0, l.side / kDepth});
}

/// Turns a thread's pairs of a tile into its pairs of the tile's mirror image.
__device__ void mirror(Pairs& pairs, const Tile& tile) {
  constexpr int kLd = kSmall + 1;
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

__device__ Place mirror(const Place& place) { return {place.matrix, place.column, place.row, 0}; }

__global__ void __launch_bounds__(Tile::kThreads, 4)
    gram_outside(Context c, const Place* places, Recipe recipe) {
  const Place place = places[blockIdx.x], across = mirror(place);
  const bool apart = place.row != place.column;
  const Layout& l = c.layouts[place.matrix];
  const State state = measure(c, l, c.states[place.matrix], recipe);
  Tile tile;
  multiply(tile, c, l, place, l.st, l.st);
  Pairs t, b;
  read(t, tile, c.floats(l.t_wide), l, place);
  combine(t, tile, [](float gram, float seen) { return gram - seen; });  // R = T − SᵀS
  write(t, tile, c.floats(l.t_wide), l, place);
  write(t, tile, c.halves(l.r), l, place);
  multiply(tile, c, l, place, l.omega, l.omega);
  read(b, tile, c.halves(l.omega), l, place);
  if (apart) {
    mirror(t, tile);
    write(t, tile, c.floats(l.t_wide), l, across);
    write(t, tile, c.halves(l.r), l, across);
    mirror(t, tile);
  }
  combine(t, tile, [](float r, float squared) { return r + squared; });  // T ← R − Ω² = R + ΩΩᵀ
  write(t, tile, c.halves(l.t), l, place);
  // B = (C/τ − I)/θ = −½Ω − (θ/4)T: what multiplies Z beyond the identity
  const auto put_b = [&](float sign, const Place& where) {
    Pairs sum;
    for (int i = 0; i < Tile::kPairs; ++i) {
      sum[i] = make_float2(-0.5f * sign * b[i].x - 0.25f * state.theta * t[i].x,
                           -0.5f * sign * b[i].y - 0.25f * state.theta * t[i].y);
    }
    write(sum, tile, c.halves(l.b), l, where);
  };
  put_b(1, place);
  if (apart) {
    mirror(t, tile);
    mirror(b, tile);
    write(t, tile, c.halves(l.t), l, across);
    put_b(-1, across);
  }
  if (place.row == 0 && place.column == 0 && threadIdx.x == 0) {
    State& home = c.states[place.matrix];
    home.tau = state.tau;
    home.theta = state.theta;
    home.f_scale = state.f_scale;
    home.c_scale = state.c_scale;
  }
}

__global__ void __launch_bounds__(Tile::kThreads, 4) first_products(Context c, const Place* places) {
  const Place place = places[blockIdx.x];
  const Layout& l = c.layouts[place.matrix];
  const float theta = c.states[place.matrix].theta;
  Tile tile;
  Pairs f, pairs;
  // F = −(θ²/2)R + (θ³/4)ΩR − θ(Z + θBZ) − ½E, in row form
  multiply(tile, c, l, place, l.omega, l.r);
  read(f, tile, c.floats(l.t_wide), l, place);
  for (float2& pair : f) pair = make_float2(-0.5f * theta * theta * pair.x, -0.5f * theta * theta * pair.y);
  const float cube = 0.25f * theta * theta * theta;
  combine(f, tile, [&](float sum, float product) { return sum + cube * product; });
  combine(pairs, tile, [](float, float product) { return product; });
  write(pairs, tile, c.halves(l.q), l, place);
  read(pairs, tile, c.halves(l.z), l, place);
  for (int i = 0; i < Tile::kPairs; ++i)
    f[i] = make_float2(f[i].x - theta * pairs[i].x, f[i].y - theta * pairs[i].y);
  read(pairs, tile, c.floats(l.e), l, place);
  for (int i = 0; i < Tile::kPairs; ++i)
    f[i] = make_float2(f[i].x - 0.5f * pairs[i].x, f[i].y - 0.5f * pairs[i].y);
  multiply(tile, c, l, place, l.b, l.z);
  combine(f, tile, [&](float sum, float product) { return sum - theta * theta * product; });
  write(f, tile, c.floats(l.f_part), l, place);
  if (place.row < place.column) return;
  multiply(tile, c, l, place, l.t, l.t);
  combine(pairs, tile, [](float, float product) { return product; });
  write(pairs, tile, c.floats(l.t_squared), l, place);
}

__global__ void __launch_bounds__(Tile::kThreads, 4) last_product(Context c, const Place* places) {
  const Place place = places[blockIdx.x];
  const Layout& l = c.layouts[place.matrix];
  const State state = c.states[place.matrix];
  Tile tile;
  multiply(tile, c, l, place, l.q, l.omega);
  const float theta = state.theta, theta2 = theta * theta;
  Pairs p;
  // A₄ = T² − ΩRΩ, and ΩRΩ = −(ΩR)Ωᵀ; P = (θ⁴/8)A₄
  read(p, tile, c.floats(l.t_squared), l, place);
  combine(p, tile,
          [&](float squared, float product) { return 0.125f * theta2 * theta2 * (squared + product); });
  const auto finish = [&](const Place& where) {
    Pairs f, t;
    read(f, tile, c.floats(l.f_part), l, where);
    for (int i = 0; i < Tile::kPairs; ++i) f[i] = make_float2(f[i].x + p[i].x, f[i].y + p[i].y);
    write(f, tile, c.halves(l.f), l, where, state.f_scale);
    // (C − τI)/τ = −(θ/2)Ω − (θ²/4)T + P
    read(f, tile, c.halves(l.omega), l, where);
    read(t, tile, c.halves(l.t), l, where);
    for (int i = 0; i < Tile::kPairs; ++i) {
      f[i] = make_float2(p[i].x - 0.5f * theta * f[i].x - 0.25f * theta2 * t[i].x,
                         p[i].y - 0.5f * theta * f[i].y - 0.25f * theta2 * t[i].y);
    }
    write(f, tile, c.halves(l.c), l, where, state.tau * state.c_scale);
  };
  finish(place);
  if (place.row != place.column) {
    mirror(p, tile);
    finish(mirror(place));
  }
}

}  // namespace

cudaError_t allow_coefficients() {
  for (const auto error :
       {allow_shared(gram_outside, Tile::kSharedBytes), allow_shared(first_products, Tile::kSharedBytes),
        allow_shared(last_product, Tile::kSharedBytes)}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

void find_gram_outside(const Context& c, Blocks<Place> pairs, const Recipe& recipe, cudaStream_t stream) {
  gram_outside<<<pairs.count, Tile::kThreads, Tile::kSharedBytes, stream>>>(c, pairs.entries, recipe);
}

void multiply_coefficients(const Context& c, Blocks<Place> squares, cudaStream_t stream) {
  first_products<<<squares.count, Tile::kThreads, Tile::kSharedBytes, stream>>>(c, squares.entries);
}

void finish_coefficients(const Context& c, Blocks<Place> pairs, cudaStream_t stream) {
  last_product<<<pairs.count, Tile::kThreads, Tile::kSharedBytes, stream>>>(c, pairs.entries);
}

}  // namespace stiefel::cuda
