#pragma once

#include <limits>
#include <string>
#include <vector>

namespace stiefel::base {

/// An axis of a chart, from values to pixels. First include() everything that it has to show, then settle()
/// it, then use it.
class Axis {
 public:
  enum class Scale { kLinear, kLog };

  /// From the pixel where it begins to the one where it ends.
  Axis(double from, double to, Scale scale) : from_(from), to_(to), log_(scale == Scale::kLog) {}

  /// Whether it can show the value: one up to 1e250 in size, on a logarithmic axis at least 1e-250.
  bool shows(double value) const;

  /// Extends the range to the value, if it can show it.
  void include(double value);

  /// Fixes the range, with `margin` of it to spare at both ends. A single value is put in the middle.
  void settle(double margin);

  /// The pixel of a value that it shows.
  double operator()(double value) const;

  /// Round values, about `wanted` of them (more on a logarithmic axis); whole numbers only where `whole`.
  std::vector<double> ticks(double wanted, bool whole = false) const;

 private:
  double scaled(double value) const;
  double unscaled(double value) const;
  std::vector<double> log_ticks(double wanted) const;
  std::vector<double> linear_ticks(double wanted, bool whole) const;

  double from_, to_;
  bool log_;
  double least_ = std::numeric_limits<double>::infinity();
  double greatest_ = -std::numeric_limits<double>::infinity();
  double low_ = 0, high_ = 1;  // scaled
};

/// A tick's value as short as it can be read: 0.05, 2000, 1e-4.
std::string tick_label(double value);

}  // namespace stiefel::base
