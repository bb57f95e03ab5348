#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace stiefel::base {

/// Text in columns: the first and the last to the left, the others to the right. Counts characters, not
/// bytes.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> row);
  void print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stiefel::base
