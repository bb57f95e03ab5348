#include "base/table.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "base/csv.h"
#include "base/escape.h"
#include "base/html.h"
#include "base/markdown.h"
#include "base/text_layout.h"

// A table in its four forms, and the text around it.

namespace table_test {

using namespace stiefel::base;
using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(TextWidth, CountsCharacters) {
  EXPECT_EQ(text_width(""), 0u);
  EXPECT_EQ(text_width("‖XᵀX‖"), 5u);
  EXPECT_EQ(text_start("‖XᵀX‖", 3), "‖Xᵀ");
  EXPECT_EQ(text_start("‖XᵀX‖", 5), "‖XᵀX‖");
  EXPECT_EQ(text_start("‖XᵀX‖", 0), "");
  EXPECT_EQ(wrapped("‖a‖ bb cc", 6), (std::vector<std::string>{"‖a‖ bb", "cc"}));
}

TEST(Tables, ColumnsAreAlignedByCharacters) {
  Table table({"weight", "p × n", "‖XᵀX − I‖", ""}, "lrrl");
  table.add({"conv1", "16 × 144", "1e-6"});
  table.add({"größer als alle", "4 × 9", "2.5e-3", "above"});
  EXPECT_EQ(table.text(),
            "weight              p × n  ‖XᵀX − I‖\n"
            "conv1            16 × 144       1e-6\n"
            "größer als alle     4 × 9     2.5e-3  above\n");
  for (const auto& line : lines_of(table.text(3))) {
    EXPECT_EQ(line.substr(0, 3), "   ");
    EXPECT_NE(line.back(), ' ');
  }
}

TEST(Tables, TheFirstAndTheLastColumnAreLeftUnlessToldOtherwise) {
  const auto sides = [](const Table& table) {
    std::string letters;
    for (size_t i = 0; i < table.header().size(); ++i) letters += table.align(i) == Align::kLeft ? 'l' : 'r';
    return letters;
  };
  EXPECT_EQ(sides(Table({"a"})), "l");
  EXPECT_EQ(sides(Table({"a", "b"})), "lr");
  EXPECT_EQ(sides(Table({"a", "b", "c", "d"})), "lrrl");
  EXPECT_EQ(sides(Table({"a", "b", "c", "d"}, "llr")), "llrr") << "the last letter holds for the others";
  EXPECT_EQ(sides(Table({"a", "b"}, "rlr")), "rl");
  std::ostringstream printed;
  Table({"a", "b"}).print(printed);
  EXPECT_EQ(printed.str(), "  a  b\n");
}

TEST(Tables, ABadRowOrAlignmentIsAnError) {
  EXPECT_THROW(Table({"a"}, "c"), std::invalid_argument);
  Table table({"a", "b"});
  EXPECT_THROW(table.add({"1", "2", "3"}), std::invalid_argument);
  table.add({});
  EXPECT_EQ(table.rows(), (Rows{{"", ""}}));
  EXPECT_EQ(table.text(2), "  a  b\n\n");
}

TEST(Tables, ALineOfFixedColumnsMovesForAWideCell) {
  const std::vector<Column> columns{{3}, {4, Align::kLeft}, {2}};
  EXPECT_EQ(aligned_line({"é", "ab", "7"}, columns), "  é  ab     7");
  EXPECT_EQ(aligned_line({"12345", "", ""}, columns), "12345");
}

/// Reads Markdown's rows back; "\|" is a bar within a cell.
Rows read_markdown(const std::string& text) {
  Rows rows;
  for (const auto& line : lines_of(text)) {
    rows.emplace_back();
    std::string cell;
    for (size_t i = 1; i < line.size(); ++i) {
      if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
        cell += line[++i];
      } else if (line[i] == '|') {
        const auto first = cell.find_first_not_of(' ');
        rows.back().push_back(
            first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
        cell.clear();
      } else {
        cell += line[i];
      }
    }
  }
  return rows;
}

TEST(Markdown, CellsAreReadBack) {
  Table table({"name", "value"});
  const Rows rows{{"a | b", "‖x‖"}, {"", "|"}, {"plain", "1"}};
  for (const auto& row : rows) table.add(row);
  const auto text = to_markdown(table);
  EXPECT_EQ(lines_of(text)[1], "|---|---:|");
  auto read = read_markdown(text);
  read.erase(read.begin(), read.begin() + 2);
  EXPECT_EQ(read, rows);
  EXPECT_EQ(lines_of(to_markdown(table)).size(), 5u);
  EXPECT_EQ(markdown_cell("two\nlines"), "two lines");
}

TEST(Markdown, LinksTakeAnyPath) {
  EXPECT_EQ(markdown_link("a", "b/c.svg"), "[a](b/c.svg)");
  EXPECT_EQ(markdown_link("a", "b (2)/c d"), "[a](<b (2)/c d>)");
}

/// Reads CSV as RFC 4180 has it.
Rows read_csv(const std::string& text) {
  Rows rows{{""}};
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    auto& field = rows.back().back();
    if (text[i] == '"') {
      if (quoted && i + 1 < text.size() && text[i + 1] == '"') {
        field += text[++i];
      } else {
        quoted = !quoted;
      }
    } else if (text[i] == ',' && !quoted) {
      rows.back().emplace_back();
    } else if (text[i] == '\n' && !quoted) {
      rows.push_back({""});
    } else {
      field += text[i];
    }
  }
  rows.pop_back();
  return rows;
}

TEST(Csv, FieldsAreReadBack) {
  Table table({"plain", "comma, quote \" and\nlines"});
  const Rows rows{{"", "\""}, {"a,b", "\r\n"}, {"‖x‖", "\"\",\n"}};
  for (const auto& row : rows) table.add(row);
  const auto read = read_csv(to_csv(table));
  EXPECT_EQ(read.front(), table.header());
  EXPECT_EQ(Rows(read.begin() + 1, read.end()), rows);
  EXPECT_EQ(csv_field("plain"), "plain") << "no quotes where none are needed";
}

TEST(Html, TablesHoldTheirCellsAndEscapeTheirTitles) {
  HtmlTable table{"A & B", "results", "scroll snug"};
  table.add_column("Run");
  table.add_column("<Error>", Align::kRight, "in \"per cent\"");
  table.rows = {{element("th scope=\"row\"", "a<b"), element("td", "1")}};
  EXPECT_EQ(
      table.html(),
      "<div class=\"scroll snug\" tabindex=\"0\" role=\"region\" aria-label=\"A &amp; B\">\n"
      "<table class=\"results\">\n<thead><tr><th scope=\"col\">Run</th><th scope=\"col\" class=\"number\" "
      "title=\"in &quot;per cent&quot;\">&lt;Error&gt;</th></tr></thead>\n<tbody>\n"
      "<tr><th scope=\"row\">a&lt;b</th><td>1</td></tr>\n</tbody>\n</table>\n</div>\n");
}

}  // namespace table_test
