#pragma once

#include "mixed_step.h"

/// What a step counts, and Cayley ADAM's two numbers per matrix.
namespace stiefel::cuda {

__device__ inline void increment(int64_t* counter) {
  if (counter != nullptr) atomicAdd(reinterpret_cast<unsigned long long*>(counter), 1ull);
}

struct AdamPair {
  double v, k;
};

/// v ← β₂v + (1 − β₂)‖G‖²_F, and k counts the step.
__device__ inline AdamPair advanced(const Recipe& recipe, AdamPair now, double g2) {
  return {recipe.beta2 * now.v + (1 - recipe.beta2) * g2, now.k + 1};
}

/// r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε), k counted from 1; 1 where that is zero, which it is with ε = 0 and
/// gradients of zero only: M is zero too.
__device__ inline double adam_divisor(const Recipe& recipe, AdamPair now) {
  const double counted = fmax(now.k, 1.0);
  const double r =
      (1 - pow(recipe.beta1, counted)) * sqrt(now.v / (1 - pow(recipe.beta2, counted)) + recipe.eps);
  return r == 0 ? 1 : r;
}

}  // namespace stiefel::cuda
