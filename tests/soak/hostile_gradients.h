#pragma once

#include <cstdint>

#include "tests/soak/methods.h"

// Gradients that are meant to push matrices off the manifold.

namespace soak {

/// For 20 steps each, by turns: random; thirty times as much along the normal as along the manifold; of rank
/// one; zero; those of a PCA whose eigenvalues are 300 ± ½, all but a thousandth of which is normal; and one
/// direction that stays. Their sizes go over 1e-12 … 1e12 by turns too, so that every kind has every size
/// within 3,000 steps. About one step in a hundred has a NaN or an infinity in one matrix. A pure function of
/// seed, step and the weights.
class HostileGradients {
 public:
  HostileGradients(const Method& method, uint64_t seed) : method_(method), seed_(seed) {}

  /// Sets every weight's gradient, and returns how many matrices got one that is not finite.
  int64_t set(const Weights& weights, int64_t step) const;

 private:
  double size_of(int64_t segment, at::ScalarType type) const;
  at::Tensor gradient_of(const at::Tensor& weight, int64_t step, uint64_t number) const;

  const Method& method_;
  uint64_t seed_;
};

}  // namespace soak
