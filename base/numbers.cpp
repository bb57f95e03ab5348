#include "numbers.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "excerpt.h"

namespace stiefel::base {

namespace {

constexpr auto kLeast = std::numeric_limits<int64_t>::min();
constexpr auto kMost = std::numeric_limits<int64_t>::max();

/// As short as it is exact, and in plain digits where they are few.
std::string write(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

}  // namespace

int64_t to_whole(const std::string& text) {
  const bool negative = !text.empty() && text[0] == '-';
  size_t start = negative || (!text.empty() && text[0] == '+') ? 1 : 0;
  const bool hexadecimal = text.compare(start, 2, "0x") == 0 || text.compare(start, 2, "0X") == 0;
  if (hexadecimal) start += 2;
  const auto* end = text.data() + text.size();
  uint64_t size = 0;
  const auto read = std::from_chars(text.data() + start, end, size, hexadecimal ? 16 : 10);
  if (read.ec == std::errc::invalid_argument || read.ptr != end) {
    throw std::invalid_argument("'" + excerpt(text) + "' is not a whole number");
  }
  const auto largest = static_cast<uint64_t>(kMost) + (negative ? 1 : 0);
  if (read.ec == std::errc::result_out_of_range || size > largest) {
    throw std::invalid_argument(excerpt(text) +
                                (negative ? " is too small; the smallest whole number is "
                                          : " is too large; the largest whole number is ") +
                                std::to_string(negative ? kLeast : kMost));
  }
  return static_cast<int64_t>(negative ? -size : size);
}

double to_number(const std::string& text) {
  char* end = nullptr;
  const bool blank = text.empty() || text.find_first_of(" \t\n\r\v\f") != std::string::npos;
  const double value = blank ? 0 : std::strtod(text.c_str(), &end);
  if (blank || end != text.c_str() + text.size()) {
    throw std::invalid_argument("'" + excerpt(text) + "' is not a number");
  }
  const bool named = text.find_first_of("iI") != std::string::npos;  // of inf and infinity, and of no numeral
  if (std::isinf(value) && !named) {
    throw std::invalid_argument(excerpt(text) +
                                " is too large; the largest number is 1.7976931348623157e+308");
  }
  return value;
}

bool Interval::contains(double value) const {
  return (with_low ? value >= low : value > low) && (with_high ? value <= high : value < high);
}

std::string to_string(const Interval& interval) {
  const auto low = write(interval.low);
  const auto high = write(interval.high);
  if (interval.with_low && interval.with_high) return "from " + low + " to " + high;
  return (interval.with_low ? "at least " : "above ") + low + " and " +
         (interval.with_high ? "at most " : "below ") + high;
}

}  // namespace stiefel::base
