#include "axis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "format_number.h"

namespace stiefel::base {

namespace {

// Beyond these, differences, margins and the decades of ticks leave the range of a double. A diverged run may
// have such values.
constexpr double kLargest = 1e250;
constexpr double kSmallest = 1e-250;

}  // namespace

bool Axis::shows(double value) const { return std::abs(value) <= kLargest && (!log_ || value >= kSmallest); }

void Axis::include(double value) {
  if (!shows(value)) return;
  least_ = std::min(least_, value);
  greatest_ = std::max(greatest_, value);
}

void Axis::settle(double margin) {
  if (least_ > greatest_) least_ = greatest_ = 1;
  low_ = scaled(least_), high_ = scaled(greatest_);
  double room = margin * (high_ - low_);
  if (high_ - low_ < 1e-12 * std::max(1.0, std::abs(high_)))
    room = log_ ? 0.5 : std::max(0.5 * std::abs(high_), 0.5);
  low_ -= room, high_ += room;
}

double Axis::operator()(double value) const {
  return from_ + (scaled(value) - low_) / (high_ - low_) * (to_ - from_);
}

std::vector<double> Axis::ticks(double wanted, bool whole) const {
  if (log_) {
    auto decades = log_ticks(wanted);
    if (decades.size() >= 3) return decades;
  }
  return linear_ticks(wanted, whole);
}

double Axis::scaled(double value) const { return log_ ? std::log10(value) : value; }

double Axis::unscaled(double value) const { return log_ ? std::pow(10, value) : value; }

/// Decades; where there are few of them 1, 2 and 5 of each, and within less than one all digits.
std::vector<double> Axis::log_ticks(double wanted) const {
  const double range = high_ - low_;
  const std::vector<int> digits = range > 2.5   ? std::vector<int>{1}
                                  : range > 0.7 ? std::vector<int>{1, 2, 5}
                                                : std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const int stride = std::max(1, static_cast<int>(std::ceil(range / wanted)));
  std::vector<double> result;
  for (int decade = static_cast<int>(std::floor(low_)); decade <= high_; ++decade) {
    if (decade % stride != 0) continue;
    for (const int digit : digits) {
      // From text, so that it is the double nearest to the decimal number.
      const double value = std::stod(std::to_string(digit) + "e" + std::to_string(decade));
      const double at = std::log10(value);
      if (at >= low_ && at <= high_) result.push_back(value);
    }
  }
  return result;
}

/// Multiples of 1, 2 or 5 times a power of ten.
std::vector<double> Axis::linear_ticks(double wanted, bool whole) const {
  const double low = unscaled(low_), high = unscaled(high_);
  const double rough = (high - low) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step < rough) step = factor * power;
  }
  if (whole) step = std::max(1.0, std::round(step));
  constexpr double kRounding = 1e-6;  // of a step: an end that is a multiple has its tick
  std::vector<double> result;
  for (double i = std::ceil(low / step - kRounding); i * step <= high + kRounding * step; ++i) {
    if (!log_ || i > 0) result.push_back(i == 0 ? 0 : i * step);
  }
  return result;
}

std::string tick_label(double value) {
  const double size = std::abs(value);
  char text[32];
  if (size != 0 && (size < 1e-3 || size >= 1e6)) {
    std::snprintf(text, sizeof text, "%.1e", value);
    std::string shortened = shorten_exponent(text);
    if (const auto zero = shortened.find(".0e"); zero != std::string::npos) shortened.erase(zero, 2);
    return shortened;
  }
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace stiefel::base
