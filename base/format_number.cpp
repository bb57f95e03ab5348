#include "format_number.h"

#include <cmath>
#include <cstdio>

namespace stiefel::base {

namespace {

const char* const kMissingValue = "–";

std::string print_double(const char* pattern, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

}  // namespace

std::string shorten_exponent(const std::string& text) {
  const auto e = text.find('e');
  if (e == std::string::npos) return text;
  const auto digits = text.find_first_not_of('0', e + 2);
  if (digits == std::string::npos) return text.substr(0, e);
  return text.substr(0, e + 1) + (text[e + 1] == '-' ? "-" : "") + text.substr(digits);
}

std::string format_percent(double value) {
  return std::isfinite(value) ? print_double("%.2f %%", value) : kMissingValue;
}

std::string format_loss(double value) {
  if (!std::isfinite(value)) return kMissingValue;
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e5)) return shorten_exponent(print_double("%.2e", value));
  return print_double(size < 10 ? "%.4f" : "%.2f", value);
}

std::string format_small(double value) {
  if (!std::isfinite(value)) return kMissingValue;
  return value == 0 ? "0" : shorten_exponent(print_double("%.1e", value));
}

std::string format_seconds(double value) {
  if (!std::isfinite(value)) return kMissingValue;
  return print_double(value < 10 ? "%.2f s" : value < 100 ? "%.1f s" : "%.0f s", value);
}

std::string format_duration(double seconds) {
  // Longer than a century is a division by nearly zero, and more than a whole number may hold.
  if (!std::isfinite(seconds) || std::abs(seconds) > 3.2e9) return kMissingValue;
  const auto whole = std::llround(std::fmax(0, seconds));
  char buffer[64];
  if (whole < 60) {
    std::snprintf(buffer, sizeof buffer, "%lld s", whole);
  } else if (whole < 3600) {
    std::snprintf(buffer, sizeof buffer, "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(buffer, sizeof buffer, "%lld h %02lld min", whole / 3600, whole % 3600 / 60);
  }
  return buffer;
}

std::string format_count(double value) {
  if (!std::isfinite(value)) return kMissingValue;
  std::string digits = print_double("%.0f", value);
  const size_t sign = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace stiefel::base
