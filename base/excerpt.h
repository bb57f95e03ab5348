#pragma once

#include <string>

#include "printable.h"

namespace stiefel::base {

/// The beginning of a text from a file, made printable, for a message: whole where it is not long. A damaged
/// file may hold a value of megabytes.
inline std::string excerpt(const std::string& text) {
  constexpr size_t kMost = 200;
  return text.size() <= kMost
             ? printable(text)
             : printable(text.substr(0, kMost)) + "… (" + std::to_string(text.size()) + " bytes)";
}

}  // namespace stiefel::base
