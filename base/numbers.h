#pragma once

#include <cstdint>
#include <string>

/// Strict conversion of text to numbers: the whole text must be the number, and a number that is too large is
/// an error.
namespace stiefel::base {

/// A whole number in decimal, or in hexadecimal after 0x. Throws std::invalid_argument naming the text and
/// what is wrong with it.
int64_t to_whole(const std::string& text);

/// A number, as C writes it; "nan" and "inf" are read too. Throws std::invalid_argument naming the text and
/// what is wrong with it.
double to_number(const std::string& text);

/// An interval, which includes each of its ends or not.
struct Interval {
  double low;
  double high;
  bool with_low = true;
  bool with_high = true;

  bool contains(double value) const;
};

/// In words: "from 0 to 1", "at least 0 and below 1".
std::string to_string(const Interval& interval);

}  // namespace stiefel::base
