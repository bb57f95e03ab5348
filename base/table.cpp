#include "table.h"

#include <algorithm>
#include <ostream>
#include <utility>

namespace stiefel::base {

namespace {

size_t width(const std::string& text) {
  // Of a character's bytes in UTF-8 all but the first begin with the bits 10.
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Table::Table(std::vector<std::string> header) { add(std::move(header)); }

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

void Table::print(std::ostream& out) const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  for (const auto& row : rows_) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width(row[i]), ' ');
      const bool left = i == 0 || (i + 1 == row.size() && row.size() > 2);
      line += " " + (left ? row[i] + padding : padding + row[i]) + " ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

}  // namespace stiefel::base
