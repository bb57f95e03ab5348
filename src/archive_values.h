#pragma once

#include <ATen/core/ivalue.h>
#include <torch/serialize/archive.h>

#include <string>

#include "compat.h"

/// Values of an optimizer's archive, each of the type it must have. LibTorch calls a wrong one a bug of its
/// own; here the error names the entry.
namespace stiefel::detail {

inline void check_kind(const std::string& key, const c10::IValue& value, bool fits, const char* kind) {
  TORCH_CHECK(fits, "stiefel: the archive's '", key, "' is ", value.tagKind(), ", not ", kind,
              ": it is damaged, or was written by another version; load another copy");
}

inline double read_number(torch::serialize::InputArchive& archive, const std::string& key) {
  const auto value = read_value(archive, key);
  check_kind(key, value, value.isDouble(), "a number");
  return value.toDouble();
}

inline int64_t read_integer(torch::serialize::InputArchive& archive, const std::string& key) {
  const auto value = read_value(archive, key);
  check_kind(key, value, value.isInt(), "a whole number");
  return value.toInt();
}

inline bool read_flag(torch::serialize::InputArchive& archive, const std::string& key) {
  const auto value = read_value(archive, key);
  check_kind(key, value, value.isBool(), "true or false");
  return value.toBool();
}

inline std::string read_text(torch::serialize::InputArchive& archive, const std::string& key) {
  const auto value = read_value(archive, key);
  check_kind(key, value, value.isString(), "a text");
  return value.toStringRef();
}

inline torch::serialize::InputArchive read_archive(torch::serialize::InputArchive& archive,
                                                   const std::string& key) {
  torch::serialize::InputArchive inner;
  if (!archive.try_read(key, inner)) check_kind(key, read_value(archive, key), false, "an archive");
  return inner;
}

}  // namespace stiefel::detail
