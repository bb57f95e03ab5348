#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stiefel::base {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> deviation(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double slope(const std::vector<double>& x, const std::vector<double>& y) {
  const double mx = mean(x);
  const double my = mean(y);
  double xy = 0;
  double xx = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
  }
  return xy / xx;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const auto above = std::min(below + 1, values.size() - 1);
  const double weight = place - static_cast<double>(below);
  // Equal neighbors first: infinity times a weight of 0 is not a number.
  if (values[below] == values[above]) return values[below];
  return (1 - weight) * values[below] + weight * values[above];
}

}  // namespace stiefel::base
