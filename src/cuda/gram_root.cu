#include "chained_launch.cuh"
#include "coefficient_tile.cuh"
#include "mixed_kernels.h"

// The root of Cayley Muon: K ≈ T^(−½) of the tangent momentum's Gram matrix T, as src/gram_root.cpp computes
// it in full precision. With A = T/‖T‖_F, the quintic of a round takes singular values σ to σ(a + bσ² + cσ⁴):
//
//     P = aI + bA + cA²,  K ← KP,  A ← (AP)P
//
// All of these are polynomials in T, so they are symmetric and commute, and only their lower tiles are
// computed. K is held as if ‖T‖ were 1; `root_scale` = ‖T‖^(−½) comes to it where it is used. A is bounded by
// 4: a round's largest singular values are below 2.

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

/// The step's length and the scales of what it applies, the same in every block of a matrix. All threads of
/// a warp must call it.
__device__ StepSize polar_step_size(const Context& c, const Layout& l, const Decision& decision,
                                    const Recipe& recipe) {
  const double mu = unit_of(momentum_squared(c, l, decision.m_scale));
  const double e2 = sum_of_pairs(c, l, &PairNorms::e2), z2 = sum_of_pairs(c, l, &PairNorms::z2),
               t2 = sum_of_pairs(c, l, &PairNorms::t2);
  const PolarRecipe& polar = recipe.polar;
  const double gram = sqrt(t2);
  // A momentum that is what rounding left of its normal part has no direction.
  const double rounding = polar.negligible * decision.normal / mu;
  const bool counts = gram > rounding * rounding;
  const double alpha =
      fmin(*recipe.rate * (polar.rms_scale ? 0.2 * sqrt(static_cast<double>(l.n)) : 1.0), polar.most_turn);
  StepSize result;
  result.tau = result.theta = static_cast<float>(-alpha);
  result.mu = static_cast<float>(mu);
  result.apart = 0;
  result.shrink = counts ? static_cast<float>(1 / gram) : 0;
  result.root_scale = sqrtf(result.shrink);
  // ‖K‖ ≤ gain, and the coefficients of D are at most 1 beside the identity.
  const double longest = polar.gain * result.root_scale * alpha * (1 + alpha);
  const double f_bound = 3 * alpha + longest * sqrt(z2) + 0.5 * sqrt(e2);
  const double of_c = kXScale / static_cast<double>(decision.m_scale);
  result.f_scale = fminf(power_below(static_cast<float>(kMostHalf / f_bound)),
                         power_below(static_cast<float>(kMostHalf / (longest / mu * of_c))));
  result.c_scale = result.f_scale * static_cast<float>(of_c);
  return result;
}

/// Where K lies after a round: in `k` after the last.
__device__ int64_t root_after(const PolarLayout& at, int round, int rounds) {
  return (rounds - 1 - round) % 2 == 0 ? at.k : at.other_k;
}

constexpr float kGramUnit = 8192;  // 1 in A from the second round on, and in AP

/// What is added to the diagonal of A, so that rounding leaves no eigenvalue below zero, where the quintics
/// are steep.
constexpr float kFloor = 3e-4f;

/// Adds `value` to the diagonal inside the matrix. What lies beyond p stays zero.
__device__ void add_diagonal(Pairs& pairs, const CoefficientTile& tile, const Layout& l,
                             const TileIndex& where, float value) {
  if (where.row != where.column) return;
  tile.for_each_pair([&](int index, int row, int column, float, float) {
    const bool inside = where.row * kSmallSide + row < l.p;
    if (row == column && inside) pairs[index].x += value;
    if (row == column + 1 && inside) pairs[index].y += value;
  });
}

/// A = (T/‖T‖ + floor·I)/(1 + 2 floor) in the first round: A = s·T + shift·I.
struct FirstGram {
  float s, shift;

  __device__ explicit FirstGram(float shrink)
      : s(shrink / (1 + 2 * kFloor)), shift(kFloor / (1 + 2 * kFloor)) {}
};

/// P = aI + bA + cA², which is K in the first round.
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    find_factor(Context c, const TileIndex* indices, Recipe recipe, int round) {
  const TileIndex where = indices[blockIdx.x];
  CoefficientTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[where.matrix];
  const PolarLayout at = polar_layout(l);
  const Quintic q = recipe.polar.quintics[round];
  const bool first = round == 0;
  float constant = q.a, linear = q.b, quadratic = q.c;
  if (first) {
    const StepSize size = polar_step_size(c, l, c.states[where.matrix].decision, recipe);
    const FirstGram gram(size.shrink);
    constant = q.a + gram.shift * (q.b + q.c * gram.shift);
    linear = gram.s * (q.b + 2 * q.c * gram.shift);
    quadratic = gram.s * gram.s * q.c;
    if (where.row == 0 && where.column == 0 && threadIdx.x == 0) {
      c.states[where.matrix].size = size;  // no block of this launch reads it
    }
  }
  const int64_t a = first ? l.t : at.a;
  const float unit = first ? kUnit : kGramUnit;
  multiply(tile, c, l, where, a, a);
  Pairs p;
  read(p, tile, c.halves(a), l, where, unit);
  combine(
      p, tile, [&](float of_a, float squared) { return linear * of_a + quadratic * squared; }, unit * unit);
  add_diagonal(p, tile, l, where, constant);
  const int64_t to = first ? root_after(at, 0, recipe.polar.rounds) : at.factor;
  write_both(p, tile, c.halves(to), l, where, kRootUnit);
}

/// AP, except after the last round, and K ← KP, except after the first, whose P is K.
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    multiply_by_factor(Context c, const TileIndex* indices, int round, int rounds) {
  const TileIndex where = indices[blockIdx.x];
  CoefficientTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[where.matrix];
  const PolarLayout at = polar_layout(l);
  Pairs product;
  if (round == 0) {
    const FirstGram gram(c.states[where.matrix].size.shrink);
    const int64_t p = root_after(at, 0, rounds);
    multiply(tile, c, l, where, l.t, p);
    read(product, tile, c.halves(p), l, where, kRootUnit);
    combine(
        product, tile, [&](float of_p, float tp) { return gram.shift * of_p + gram.s * tp; },
        kUnit * kRootUnit);
    write_both(product, tile, c.halves(at.product), l, where, kGramUnit);
    return;
  }
  if (round + 1 < rounds) {
    multiply(tile, c, l, where, at.a, at.factor);
    take_product(product, tile, kGramUnit * kRootUnit);
    write_both(product, tile, c.halves(at.product), l, where, kGramUnit);
  }
  multiply(tile, c, l, where, root_after(at, round - 1, rounds), at.factor);
  take_product(product, tile, kRootUnit * kRootUnit);
  write_both(product, tile, c.halves(root_after(at, round, rounds)), l, where, kRootUnit);
}

/// A ← (AP)P.
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    advance_gram(Context c, const TileIndex* indices, int round, int rounds) {
  const TileIndex where = indices[blockIdx.x];
  CoefficientTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[where.matrix];
  const PolarLayout at = polar_layout(l);
  multiply(tile, c, l, where, at.product, round == 0 ? root_after(at, 0, rounds) : at.factor);
  Pairs a;
  take_product(a, tile, kGramUnit * kRootUnit);
  write_both(a, tile, c.halves(at.a), l, where, kGramUnit);
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernels themselves (tests/kernels/cuda_on_cpu)

cudaError_t allow_gram_root() {
  return allow_shared(CoefficientTile::kSharedBytes, find_factor, multiply_by_factor, advance_gram);
}

void find_gram_root(const Context& c, DeviceList<TileIndex> pairs, const Recipe& recipe,
                    cudaStream_t stream) {
  const int rounds = recipe.polar.rounds;
  constexpr int kThreads = CoefficientTile::kThreads, kBytes = CoefficientTile::kSharedBytes;
  for (int round = 0; round < rounds; ++round) {
    launch(find_factor, pairs.count, kThreads, kBytes, stream, c, pairs.entries, recipe, round);
    const bool last = round + 1 == rounds;
    if (last && round == 0) continue;
    launch(multiply_by_factor, pairs.count, kThreads, kBytes, stream, c, pairs.entries, round, rounds);
    if (!last) launch(advance_gram, pairs.count, kThreads, kBytes, stream, c, pairs.entries, round, rounds);
  }
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS
