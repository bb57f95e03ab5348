#pragma once

#include <string>

#include "table.h"

namespace stiefel::base {

/// A text as a field of CSV (RFC 4180): quoted where it holds a comma, a quote or a line break.
std::string csv_field(const std::string& text);

/// The header and the rows, a line each.
std::string to_csv(const Table& table);

}  // namespace stiefel::base
