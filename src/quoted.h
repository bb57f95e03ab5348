#pragma once

#include <string>

namespace stiefel::detail {

/// A text from outside for an error message: in quotes, what is not printable ASCII as a question mark, and
/// cut where it is long.
inline std::string quoted(const std::string& text) {
  constexpr size_t kMost = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kMost)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kMost ? "…'" : "'");
}

}  // namespace stiefel::detail
