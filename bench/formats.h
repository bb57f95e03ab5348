#pragma once

#include <string>
#include <vector>

#include "row.h"

namespace stiefel::bench {

/// The rows as text: "table" for a terminal, "md" for a document, "csv", or "json", an array of objects whose
/// unknown values are null.
std::string format_rows(const std::vector<Row>& rows, const std::string& format);

/// The formats' names.
std::vector<std::string> row_formats();

}  // namespace stiefel::bench
