#include "table.h"

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "text_layout.h"

namespace stiefel::base {

std::string aligned_line(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto width = text_width(cells[i]);
    const std::string padding(columns[i].width > width ? columns[i].width - width : 0, ' ');
    line += (i == 0 ? "" : "  ");
    line += columns[i].align == Align::kLeft ? cells[i] + padding : padding + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

Table::Table(Row header, std::string alignment)
    : header_(std::move(header)), alignment_(std::move(alignment)) {
  if (alignment_.find_first_not_of("lr") != std::string::npos) {
    throw std::invalid_argument("a table's alignment is '" + alignment_ + "'; its letters must be l or r");
  }
}

void Table::add(Row row) {
  if (row.size() > header_.size()) {
    throw std::invalid_argument("a row has " + std::to_string(row.size()) + " cells, but the table " +
                                std::to_string(header_.size()) + " columns");
  }
  row.resize(header_.size());
  rows_.push_back(std::move(row));
}

Align Table::align(size_t column) const {
  if (!alignment_.empty())
    return alignment_[std::min(column, alignment_.size() - 1)] == 'l' ? Align::kLeft : Align::kRight;
  const bool last = column + 1 == header_.size() && header_.size() > 2;
  return column == 0 || last ? Align::kLeft : Align::kRight;
}

std::string Table::text(size_t indent) const {
  std::vector<Column> columns;
  for (size_t i = 0; i < header_.size(); ++i) {
    columns.push_back({text_width(header_[i]), align(i)});
    for (const auto& row : rows_) columns[i].width = std::max(columns[i].width, text_width(row[i]));
  }
  const std::string before(indent, ' ');
  std::string text;
  const auto write = [&](const Row& row) {
    const auto line = aligned_line(row, columns);
    text += (line.empty() ? "" : before + line) + "\n";
  };
  write(header_);
  for (const auto& row : rows_) write(row);
  return text;
}

void Table::print(std::ostream& out) const { out << text(2); }

}  // namespace stiefel::base
