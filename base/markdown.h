#pragma once

#include <string>

#include "table.h"

/// Markdown as GitHub reads it.
namespace stiefel::base {

/// Text that neither ends a table's cell nor its row.
std::string markdown_cell(const std::string& text);

/// [text](target), whatever characters a path has.
std::string markdown_link(const std::string& text, const std::string& target);

/// The table with its columns' alignment, every cell through markdown_cell().
std::string to_markdown(const Table& table);

}  // namespace stiefel::base
