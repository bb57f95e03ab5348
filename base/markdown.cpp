#include "markdown.h"

namespace stiefel::base {

std::string markdown_cell(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '|') {
      safe += "\\|";
    } else {
      safe += c == '\n' || c == '\r' ? ' ' : c;
    }
  }
  return safe;
}

std::string markdown_link(const std::string& text, const std::string& target) {
  const bool plain = target.find_first_of(" ()<>") == std::string::npos;
  return "[" + text + "](" + (plain ? target : "<" + target + ">") + ")";
}

std::string to_markdown(const Table& table) {
  std::string text;
  const auto write = [&](const Table::Row& row) {
    text += "|";
    for (const auto& cell : row) text += " " + markdown_cell(cell) + " |";
    text += "\n";
  };
  write(table.header());
  text += "|";
  for (size_t i = 0; i < table.header().size(); ++i)
    text += table.align(i) == Align::kLeft ? "---|" : "---:|";
  text += "\n";
  for (const auto& row : table.rows()) write(row);
  return text;
}

}  // namespace stiefel::base
