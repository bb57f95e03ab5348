#include "mixed_step.h"

#include <algorithm>

#include "mixed_context.cuh"
#include "mixed_kernels.h"

// The step in row form: x is p×n, x xᵀ = I, and M has the gradient's sign, so X moves along τM with τ < 0.
//
// Two things must be accurate for X to stay orthonormal: the drift E = x xᵀ − I, and the normal part Z of the
// direction that is really applied. All else only steers. So x = H₁ + H₂ in two half-precision pieces, 22
// bits, give E; the direction is M₁, the rounding of the projected momentum to halves, and its overlap with x
// is measured after the rounding. Everything that is stored as halves is scaled by powers of two, so that
// nothing overflows and nothing that matters is lost below.
//
// After the pointers of the matrices are written to the device, each line is one launch:
//
//   1  M ← decay·M + gain·G, not yet written; H₁, H₂, M₁ of it; sums of squares of rows
//   2  H₁H₁ᵀ, H₂H₁ᵀ, M₁H₁ᵀ
//   3  E, with its diagonal from the sums of squares; Σ = ½(S + Sᵀ), S = x Mᵀ
//   4  M ← M − Σ H₁, written where ‖G‖ and ‖E‖ let the matrix move; M₁ of it: from here on M₁ is the
//   direction 5  S = H₁M₁ᵀ, T = M₁M₁ᵀ 6  Ω = ½(S − Sᵀ), Z = ½(S + Sᵀ); Cayley ADAM's v, k and r 7  R = T −
//   SᵀS, the Gram matrix of what M₁ has outside span x; T ← R − Ω², that of its tangent part;
//      ‖W‖² = 2 tr T − ‖Ω‖², α = min(l, 2q/(‖W‖ + ε))
//   8  ΩR, T², and what removes Z
//   9  F and C. With s = 2 the loop of the paper ends, in closed form, at
//          C = τI + (τ²/2)Ω − (τ³/4)T,   F = −(τ²/2)R − (τ³/4)RΩ      (tall notation; here their transposes)
//      and its iterate Y has YᵀY − I = V = −(τ⁴/4)A₄ + …, A₄ = XᵀW⁴X = T² − ΩRΩ, so P = −½V = (τ⁴/8)A₄ makes
//      it orthonormal: F ← F + P − CZ − ½E, C ← C + τP
//  10  x ← x + τM₁ + F H₁ + (C − τI) M₁
//
// Cayley Muon moves along D = KM − N x, K ≈ T^(−½). Its step has more launches after 7: those of K
// (gram_root.cu; five for two rounds), then Ω_D, R_D and T_D in two (polar_direction.cu), of which 8 and 9
// make F and C, and two more that make them coefficients of x and M₁, so that 10 is x ← x + F H₁ + C M₁.

namespace stiefel::cuda::STIEFEL_KERNELS {

namespace {

constexpr int kPointersAtOnce = 60;

/// Pointers as a kernel's parameters: they reach the device without a copy, and a captured step keeps them.
struct Pointers {
  int first;
  int count;
  Matrix matrices[kPointersAtOnce];
};
static_assert(is_plain<Pointers, 8 + kPointersAtOnce * sizeof(Matrix)>);
static_assert(sizeof(Pointers) + sizeof(Matrix*) <= 4096, "what a kernel's parameters may take");

constexpr int kPointerThreads = 64;
static_assert(kPointersAtOnce <= kPointerThreads, "a thread per matrix");

__global__ void write_pointers(Pointers pointers, Matrix* to) {
  if (threadIdx.x < pointers.count) to[pointers.first + threadIdx.x] = pointers.matrices[threadIdx.x];
}

/// A list of the table in device memory.
template <class Entry>
DeviceList<Entry> on_device(const void* table, const MixedPlan::List<Entry>& list) {
  return {reinterpret_cast<const Entry*>(static_cast<const char*>(table) + list.offset), list.count};
}

/// Lets the kernels use the shared memory that they need, once per device.
cudaError_t allow_all() {
  static thread_local int allowed = -1;
  int device = 0;
  if (const auto error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (allowed == device) return cudaSuccess;
  for (const auto error : {allow_split_rows(), allow_gram_products(), allow_projection(),
                           allow_coefficients(), allow_gram_root(), allow_polar_direction(), allow_move()}) {
    if (error != cudaSuccess) return error;
  }
  allowed = device;
  return cudaSuccess;
}

}  // namespace

cudaError_t mixed_step(const MixedPlan& plan, const Matrix* matrices, const Recipe& recipe, const void* table,
                       void* workspace, cudaStream_t stream) {
  const int count = plan.matrices();
  if (count == 0) return cudaSuccess;
  if (const auto error = allow_all(); error != cudaSuccess) return error;
  const Context c = context_of(plan, table, workspace);
  const auto& lists = plan.lists();
  const auto pairs = on_device(table, lists.pairs), thin = on_device(table, lists.thin),
             squares = on_device(table, lists.squares);

  for (int at = 0; at < count; at += kPointersAtOnce) {
    Pointers pointers{at, std::min(kPointersAtOnce, count - at), {}};
    std::copy_n(matrices + at, pointers.count, pointers.matrices);
    write_pointers<<<1, kPointerThreads, 0, stream>>>(pointers, c.matrices);
  }
  split_rows(c, on_device(table, lists.rows), recipe, plan.widest_row_bytes(), stream);
  multiply_pieces(c, on_device(table, lists.first_products), stream);
  const bool polar = recipe.polar.rounds > 0;
  find_normal_part(c, pairs, stream);
  project(c, thin, recipe, stream);
  multiply_pieces(c, on_device(table, lists.second_products), stream);
  find_tangent_part(c, pairs, recipe, stream);
  find_gram_outside(c, pairs, recipe, stream);
  if (polar) {
    find_gram_root(c, pairs, recipe, stream);
    find_polar_direction(c, pairs, stream);
  }
  multiply_coefficients(c, squares, polar, stream);
  finish_coefficients(c, pairs, polar, stream);
  if (polar) apply_polar_direction(c, squares, stream);
  move(c, thin, stream);
  return cudaGetLastError();
}

}  // namespace stiefel::cuda::STIEFEL_KERNELS
