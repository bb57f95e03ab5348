#pragma once

#include <string>
#include <vector>

#include "table.h"

/// Pieces of HTML.
namespace stiefel::base {

/// <open>text</open>, the text escaped; `open` may carry attributes.
std::string element(const std::string& open, const std::string& text);

/// A table in a box of its own that a keyboard can scroll. Cells are finished elements, <th> or <td>.
struct HtmlTable {
  std::string label;    ///< what a screen reader calls it
  std::string classes;  ///< of the <table>
  std::string box_classes = "scroll";
  std::vector<std::string> head{};
  std::vector<std::vector<std::string>> rows{};

  /// Adds a column's title; `hint` is shown where the pointer rests on it.
  void add_column(const std::string& title, Align align = Align::kLeft, const std::string& hint = "");

  std::string html() const;
};

}  // namespace stiefel::base
