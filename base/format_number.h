#pragma once

#include <string>

/// Numbers as people read them; "–" where the value is not finite.
namespace stiefel::base {

std::string format_percent(double value);  ///< 8.71 %
std::string format_loss(double value);     ///< 0.4123, and 1.23e-5 where digits would be lost
std::string format_small(double value);    ///< 8.1e-7
std::string format_seconds(double value);  ///< 7.12 s
std::string format_count(double value);    ///< 123,456

/// To the second, in at most two parts: 12 s, 2 min 03 s, 2 h 03 min.
std::string format_duration(double seconds);

/// An exponent without its plus sign and leading zeros: "8.1e-07" as 8.1e-7, "1.0e+00" as 1.0.
std::string shorten_exponent(const std::string& text);

}  // namespace stiefel::base
