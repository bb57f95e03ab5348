#pragma once

#include <c10/util/Exception.h>

#include <array>
#include <string>
#include <utility>

#include "quoted.h"

namespace stiefel::detail {

/// The values of an enumeration with their names in options, operators and archives.
template <class Enum, size_t N>
using Names = std::array<std::pair<Enum, const char*>, N>;

/// The name of a value. `what` is what the enumeration is of, for the error.
template <class Enum, size_t N>
std::string name_of(const Names<Enum, N>& names, Enum value, const char* what) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  TORCH_CHECK(false, "stiefel: no ", what, " has the number ", static_cast<int>(value));
  return {};  // not reached; compilers see that only when they optimise
}

/// The value with a name; an error lists the names.
template <class Enum, size_t N>
Enum value_of(const Names<Enum, N>& names, const std::string& name, const char* what) {
  std::string all;
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i].second) return names[i].first;
    all += i == 0 ? "" : i + 1 == N ? " or " : ", ";
    all += names[i].second;
  }
  TORCH_CHECK(false, "stiefel: no ", what, " is called ", quoted(name), "; choose ", all);
  return {};  // as above
}

}  // namespace stiefel::detail
