#pragma once

#include <optional>
#include <vector>

namespace stiefel::base {

/// Of at least one value.
double mean(const std::vector<double>& values);

/// The sample standard deviation, √(Σ(x − mean)²/(n − 1)); nothing for fewer than two values.
std::optional<double> deviation(const std::vector<double>& values);

/// Of at least one value; of an even number of them the mean of the middle two.
double median(std::vector<double> values);

/// The slope of the least-squares line through (x, y); the two are equally long, and x is not constant.
double slope(const std::vector<double>& x, const std::vector<double>& y);

/// The value below which the share `part` of the values lies, interpolated linearly between neighbors.
double quantile(std::vector<double> values, double part);

}  // namespace stiefel::base
