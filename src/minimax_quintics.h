#pragma once

#include <cstdint>
#include <vector>

#include "test_api.h"

/// Polynomials that bring singular values to 1.
///
/// An odd quintic f(σ) = aσ + bσ³ + cσ⁵ maps the singular values of a matrix by products alone. Of all of
/// them, the one closest to 1 on an interval [ℓ, u] is its minimax polynomial; of all compositions of such
/// quintics, the one where each is the minimax polynomial of the interval that the one before it leaves
/// (Amsel, Persson, Musco and Gower, "The Polar Express", arXiv 2505.16932).
namespace stiefel::detail {

struct Quintic {
  double a, b, c;

  double operator()(double sigma) const {
    const double square = sigma * sigma;
    return sigma * (a + square * (b + square * c));
  }
};

/// The quintic with the least max |1 − f(σ)| on [least, most], and that error.
struct MinimaxQuintic {
  Quintic quintic;
  double error;
};
STIEFEL_TEST_API MinimaxQuintic minimax_quintic(double least, double most);

/// A composition of quintics for singular values in [least, 1].
struct QuinticRounds {
  std::vector<Quintic> rounds;
  double least;  ///< the smallest singular value that ends within `error` of 1
  double error;
  double gain;  ///< the slope at 0, by which the smallest singular values grow
};

/// The largest |1 − σ| that rounds may leave.
constexpr double kPolarError = 0.15;
constexpr int64_t kMostRounds = 5;

/// The composition of 1 ≤ `rounds` ≤ kMostRounds quintics that reaches furthest down with that error.
STIEFEL_TEST_API const QuinticRounds& minimax_quintics(int64_t rounds);

}  // namespace stiefel::detail
