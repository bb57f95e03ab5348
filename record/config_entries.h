#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

/// The lines of a config file (config.toml, or the file of `--config`), whatever their keys: the configs of
/// other versions have others. record/config.h turns them into a Config.
namespace stiefel::record {

/// One `key = value`.
struct ConfigEntry {
  std::string key;   ///< a key under a [section] is section.key
  std::string text;  ///< the value as it is written, without a comment
  size_t line = 0;   ///< from 1

  /// The value without the quotes around it.
  std::string value() const;

  /// The values of a list, [1, 2] or 1, 2 or 1 2, each without its quotes; one where it is no list.
  std::vector<std::string> values() const;
};

struct ConfigEntries {
  std::vector<ConfigEntry> entries;    ///< in the order of the file
  std::optional<size_t> section_line;  ///< of the first [section], which our own files do not have
};

/// Reads the subset of TOML that configs are written in. Comments begin with # or, at the start of a line,
/// with a semicolon; a key without a value is true; a list may go over several lines.
ConfigEntries parse_config_entries(const std::string& text);

}  // namespace stiefel::record
