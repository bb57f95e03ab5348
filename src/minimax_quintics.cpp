#include "minimax_quintics.h"

#include <array>
#include <cmath>
#include <utility>

namespace stiefel::detail {

namespace {

/// a, b, c and the error E of the quintic with 1 − f = E, −E, E, −E at four points, by elimination.
std::array<double, 4> equioscillate(const std::array<double, 4>& points) {
  double rows[4][5];
  for (int i = 0; i < 4; ++i) {
    const double x = points[i];
    const double values[5] = {x, std::pow(x, 3), std::pow(x, 5), i % 2 == 0 ? 1.0 : -1.0, 1.0};
    for (int j = 0; j < 5; ++j) rows[i][j] = values[j];
  }
  for (int i = 0; i < 4; ++i) {
    int pivot = i;
    for (int k = i + 1; k < 4; ++k) {
      if (std::abs(rows[k][i]) > std::abs(rows[pivot][i])) pivot = k;
    }
    std::swap(rows[i], rows[pivot]);
    for (int k = 0; k < 4; ++k) {
      if (k == i) continue;
      const double factor = rows[k][i] / rows[i][i];
      for (int j = i; j < 5; ++j) rows[k][j] -= factor * rows[i][j];
    }
  }
  std::array<double, 4> solution;
  for (int i = 0; i < 4; ++i) solution[i] = rows[i][4] / rows[i][i];
  return solution;
}

QuinticRounds compose(double least, int64_t rounds) {
  QuinticRounds result{{}, least, 0, 1};
  double low = least, high = 1;
  for (int64_t i = 0; i < rounds; ++i) {
    const auto next = minimax_quintic(low, high);
    result.rounds.push_back(next.quintic);
    result.error = next.error;
    result.gain *= next.quintic.a;
    low = 1 - next.error;
    high = 1 + next.error;
  }
  return result;
}

/// The smallest `least` that `rounds` quintics bring within the error of 1, by bisection of its logarithm.
QuinticRounds furthest(int64_t rounds) {
  double out_of_reach = 1e-6, reached = 0.9;
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(out_of_reach * reached);
    (compose(middle, rounds).error > kPolarError ? out_of_reach : reached) = middle;
  }
  return compose(reached, rounds);
}

}  // namespace

MinimaxQuintic minimax_quintic(double least, double most) {
  // Remez's exchange: 1 − f takes its extreme values at the ends and where f' = a + 3bσ² + 5cσ⁴ = 0.
  std::array<double, 4> points = {least, (3 * least + most) / 4, (least + 3 * most) / 4, most};
  std::array<double, 4> now{};
  for (int i = 0; i < 100; ++i) {
    const auto next = equioscillate(points);
    const auto [a, b, c, error] = next;
    const bool settled = std::abs(error - now[3]) <= 1e-15;
    now = next;
    if (settled) break;
    const double root = std::sqrt(std::max(0.0, 9 * b * b - 20 * a * c));
    points[1] = std::sqrt((-3 * b - root) / (10 * c));
    points[2] = std::sqrt((-3 * b + root) / (10 * c));
  }
  return {{now[0], now[1], now[2]}, now[3]};
}

const QuinticRounds& minimax_quintics(int64_t rounds) {
  static const auto all = [] {
    std::array<QuinticRounds, kMostRounds> table;
    for (int64_t i = 0; i < kMostRounds; ++i) table[i] = furthest(i + 1);
    return table;
  }();
  return all.at(rounds - 1);
}

}  // namespace stiefel::detail
