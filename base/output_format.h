#pragma once

#include <string>
#include <vector>

#include "names.h"

namespace stiefel::base {

/// What a command's `--format` takes.
enum class OutputFormat {
  kTable,     ///< for a terminal
  kMarkdown,  ///< for a document
  kCsv,
  kJson,
};

inline constexpr Names<OutputFormat, 4> kOutputFormats{{{OutputFormat::kTable, "table"},
                                                        {OutputFormat::kMarkdown, "md"},
                                                        {OutputFormat::kCsv, "csv"},
                                                        {OutputFormat::kJson, "json"}}};

/// Their names, in the order in which a command lists them.
inline std::vector<std::string> output_formats() {
  std::vector<std::string> all;
  for (const auto& [format, name] : kOutputFormats) all.emplace_back(name);
  return all;
}

}  // namespace stiefel::base
