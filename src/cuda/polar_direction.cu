#include "chained_launch.cuh"
#include "coefficient_tile.cuh"
#include "mixed_kernels.h"

// The direction of Cayley Muon, D = KM − N x with N what makes it tangent, by its p×p matrices:
//
//     Ω_D = x Dᵀ = ½(ΩK + KΩ),  R_D = KRK,  T_D = R_D − Ω_D²
//
// They take the places of Ω, R and T in the coefficients F and C (coefficients.cu). At the end these become
// coefficients of x and M₁. C ← CK is rounded to halves first, and F then takes up what that and the rounding
// of everything before it would do to orthonormality: with S = x M₁ᵀ in two pieces,
//
//     F ← F − CΩ_D − (CK)Sᵀ − ½E
//
// leaves x + Fx + (CK)M₁ with the overlap I + (F − CΩ_D) that the coefficients were made for.

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

/// Ω_D, and KR on the way to R_D.
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    find_overlap(Context c, const TileIndex* indices) {
  const TileIndex where = indices[blockIdx.x], across = mirror(where);
  CoefficientTile tile;
  wait_for_earlier_launches();
  const bool apart = where.row != where.column;
  const Layout& l = c.layouts[where.matrix];
  const PolarLayout at = polar_layout(l);
  const float scale = c.states[where.matrix].size.root_scale;
  constexpr float kProductUnit = kUnit * kRootUnit;
  Pairs omega;
  multiply(tile, c, l, across, l.omega, at.k);
  take_product(omega, tile, kProductUnit);
  mirror(omega, tile);
  multiply(tile, c, l, where, l.omega, at.k);
  // ΩK less its transpose (ΩK)ᵀ = −KΩ
  combine(
      omega, tile, [&](float other, float here) { return 0.5f * scale * (here - other); }, kProductUnit);
  write(omega, tile, c.halves(at.omega), l, where);
  if (apart) {
    mirror(omega, tile);
    write(omega, tile, c.halves(at.omega), l, across, -kUnit);
  }
  const auto put_product = [&](const TileIndex& target) {
    Pairs kr;
    multiply(tile, c, l, target, at.k, l.r);
    take_product(kr, tile, kProductUnit / scale);
    write(kr, tile, c.halves(at.product), l, target);
  };
  put_product(where);
  if (apart) put_product(across);
}

/// R_D and T_D = R_D + Ω_DΩ_Dᵀ.
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    find_grams(Context c, const TileIndex* indices) {
  const TileIndex where = indices[blockIdx.x], across = mirror(where);
  CoefficientTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[where.matrix];
  const PolarLayout at = polar_layout(l);
  Pairs r, mirrored;
  multiply(tile, c, l, where, at.product, at.k);
  take_product(r, tile, kUnit * kRootUnit / c.states[where.matrix].size.root_scale);
  write(r, tile, c.floats(l.t_wide), l, where);
  write(r, tile, c.halves(l.r), l, where);
  multiply(tile, c, l, where, at.omega, at.omega);
  if (where.row != where.column) {
#pragma unroll
    for (int i = 0; i < CoefficientTile::kPairs; ++i) mirrored[i] = r[i];
    mirror(mirrored, tile);
    write(mirrored, tile, c.floats(l.t_wide), l, across);
    write(mirrored, tile, c.halves(l.r), l, across);
  }
  combine(r, tile, [](float of_r, float squared) { return of_r + squared; });
  write_both(r, tile, c.halves(l.t), l, where);
}

/// C ← CK as it is applied, and F − CΩ_D, with C/τ − I in `turn`.
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4)
    apply_root(Context c, const TileIndex* indices) {
  const TileIndex where = indices[blockIdx.x];
  CoefficientTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[where.matrix];
  const PolarLayout at = polar_layout(l);
  const StepSize size = c.states[where.matrix].size;
  Pairs sum, other;
  multiply(tile, c, l, where, at.turn, at.k);
  read(sum, tile, c.halves(at.k), l, where, kRootUnit);
  combine(
      sum, tile, [](float k, float turned) { return k + turned; }, kUnit * kRootUnit);
  write(sum, tile, c.halves(l.c), l, where, size.c_scale * size.tau * size.root_scale / size.mu);
  // F − CΩ_D = F − τΩ_D + τ(C/τ − I)Ω_Dᵀ
  multiply(tile, c, l, where, at.turn, at.omega);
  read(sum, tile, c.halves(at.omega), l, where);
  combine(sum, tile, [&](float omega, float turned) { return size.tau * (turned - omega); });
  read(other, tile, c.floats(l.f_part), l, where);
  combine(sum, other, [](float a, float b) { return a + b; });
  write(sum, tile, c.floats(l.f_part), l, where);
}

/// F ← F − CSᵀ − ½E, with S in two pieces, in units of μ.
__global__ void __launch_bounds__(CoefficientTile::kThreads, 4) balance(Context c, const TileIndex* indices) {
  const TileIndex where = indices[blockIdx.x];
  CoefficientTile tile;
  wait_for_earlier_launches();
  const Layout& l = c.layouts[where.matrix];
  const PolarLayout at = polar_layout(l);
  const StepSize size = c.states[where.matrix].size;
  const float unit = size.c_scale * kUnit / size.mu;
  Pairs f, other;
  multiply(tile, c, l, where, l.c, at.s_rest);
  take_product(f, tile, unit * kRestScale);
  multiply(tile, c, l, where, l.c, at.s);
  combine(
      f, tile, [](float rest, float main) { return -(rest + main); }, unit);
  read(other, tile, c.floats(l.f_part), l, where);
  combine(f, other, [](float a, float b) { return a + b; });
  read(other, tile, c.floats(l.e), l, where);
  combine(f, other, [](float a, float e) { return a - 0.5f * e; });
  write(f, tile, c.halves(l.f), l, where, size.f_scale);
}

}  // namespace

#ifdef __CUDACC__  // elsewhere a test runs the kernels themselves (tests/kernels/cuda_on_cpu)

cudaError_t allow_polar_direction() {
  return allow_shared(CoefficientTile::kSharedBytes, find_overlap, find_grams, apply_root, balance);
}

void find_polar_direction(const Context& c, DeviceList<TileIndex> pairs, cudaStream_t stream) {
  constexpr int kThreads = CoefficientTile::kThreads, kBytes = CoefficientTile::kSharedBytes;
  launch(find_overlap, pairs.count, kThreads, kBytes, stream, c, pairs.entries);
  launch(find_grams, pairs.count, kThreads, kBytes, stream, c, pairs.entries);
}

void apply_polar_direction(const Context& c, DeviceList<TileIndex> squares, cudaStream_t stream) {
  constexpr int kThreads = CoefficientTile::kThreads, kBytes = CoefficientTile::kSharedBytes;
  launch(apply_root, squares.count, kThreads, kBytes, stream, c, squares.entries);
  launch(balance, squares.count, kThreads, kBytes, stream, c, squares.entries);
}

#endif

}  // namespace stiefel::cuda::STIEFEL_KERNELS
