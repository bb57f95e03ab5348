#pragma once

#include <cstdint>
#include <string>

/// Numbers that a person writes, read without a surprise: the whole text is the number, and a number that is
/// too large is an error, not another number.
namespace stiefel::base {

/// A whole number in decimal, or in hexadecimal after 0x. Throws std::invalid_argument naming the text and
/// what is wrong with it.
int64_t to_whole(const std::string& text);

/// A number, as C writes it; "nan" and "inf" are read too. Throws std::invalid_argument naming the text and
/// what is wrong with it.
double to_number(const std::string& text);

/// The numbers between two ends; each end belongs to them or not.
struct Interval {
  double low;
  double high;
  bool with_low = true;
  bool with_high = true;

  bool contains(double value) const;
};

/// In words that tell which ends belong to it: "from 0 to 1", "at least 0 and below 1".
std::string to_string(const Interval& interval);

}  // namespace stiefel::base
