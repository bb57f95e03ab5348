#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace stiefel::base {

/// Which side of its column a cell is set to.
enum class Align { kLeft, kRight };

struct Column {
  size_t width;  ///< in characters
  Align align = Align::kRight;
};

/// One line of aligned text: every cell padded to its column's width, two spaces between columns, none at the
/// end. A cell that is too wide moves the others.
std::string aligned_line(const std::vector<std::string>& cells, const std::vector<Column>& columns);

/// A header and rows of text. Written as aligned text by itself, as Markdown by base/markdown.h and as CSV by
/// base/csv.h.
class Table {
 public:
  using Row = std::vector<std::string>;

  /// `alignment` has a letter per column, l or r; the last letter holds for all columns after it. Without it
  /// the first and the last column are set to the left and the others to the right.
  explicit Table(Row header, std::string alignment = "");

  /// Cells that are missing at the end of a row are empty. Throws std::invalid_argument where there are too
  /// many.
  void add(Row row);

  const Row& header() const { return header_; }
  const std::vector<Row>& rows() const { return rows_; }
  Align align(size_t column) const;

  /// Columns as wide as their widest cell, in characters, not bytes; `indent` spaces before each line.
  std::string text(size_t indent = 0) const;

  /// text(2).
  void print(std::ostream& out) const;

 private:
  Row header_;
  std::string alignment_;
  std::vector<Row> rows_;
};

}  // namespace stiefel::base
