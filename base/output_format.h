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

}  // namespace stiefel::base
