#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace stiefel::base {

/// Why a text is not valid JSON, and where.
struct JsonError : std::runtime_error {
  JsonError(const std::string& what, size_t line_of_error, size_t column_of_error)
      : std::runtime_error("line " + std::to_string(line_of_error) + ", column " +
                           std::to_string(column_of_error) + ": " + what),
        reason(what),
        line(line_of_error),
        column(column_of_error) {}
  std::string reason;
  size_t line;  ///< both from 1
  size_t column;
};

/// Parses JSON that comes from a file. Throws JsonError where it is broken, where a number is too large for a
/// double, and where it is nested so deeply that copying or printing it would overflow the stack. The
/// message does not name the file.
nlohmann::json parse_json(const std::string& text);

/// JSON for a file or another program: indented, ending in a line break, and UTF-8 whatever bytes its strings
/// hold.
template <class Json>
std::string dump_json(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stiefel::base
