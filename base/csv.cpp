#include "csv.h"

namespace stiefel::base {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string to_csv(const Table& table) {
  std::string text;
  const auto write = [&](const Table::Row& row) {
    for (size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + csv_field(row[i]);
    text += "\n";
  };
  write(table.header());
  for (const auto& row : table.rows()) write(row);
  return text;
}

}  // namespace stiefel::base
