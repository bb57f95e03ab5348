#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

/// The names of an enum's values as users read and write them, in one table:
///
///     constexpr base::Names<Scale, 2> kScaleNames{{{Scale::kShort, "short"}, {Scale::kFull, "full"}}};
///     base::name_of(kScaleNames, Scale::kFull)                    "full"
///     base::from_name(kScaleNames, "ful", "--scale")              throws: --scale is 'ful'; it must be short
///     or full
namespace stiefel::base {

template <class Value, size_t kCount>
using Names = std::array<std::pair<Value, const char*>, kCount>;

/// Throws std::logic_error where the table lacks the value.
template <class Value, size_t kCount>
std::string name_of(const Names<Value, kCount>& names, Value value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  throw std::logic_error("a value of an enum has no name");
}

/// All names in the table's order: "smoke, short or full".
template <class Value, size_t kCount>
std::string list_names(const Names<Value, kCount>& names) {
  std::string list;
  for (size_t i = 0; i < kCount; ++i)
    list += (i == 0 ? "" : i + 1 < kCount ? ", " : " or ") + std::string(names[i].second);
  return list;
}

/// Throws std::invalid_argument that names `what`, which the name is for, and lists the names that there are.
template <class Value, size_t kCount>
Value from_name(const Names<Value, kCount>& names, const std::string& name, const std::string& what) {
  for (const auto& [value, known] : names) {
    if (known == name) return value;
  }
  throw std::invalid_argument(what + " is '" + name + "'; it must be " + list_names(names));
}

}  // namespace stiefel::base
