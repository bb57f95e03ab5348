#include "html.h"

#include "escape.h"

namespace stiefel::base {

std::string element(const std::string& open, const std::string& text) {
  return "<" + open + ">" + escape_html(text) + "</" + open.substr(0, open.find(' ')) + ">";
}

void HtmlTable::add_column(const std::string& title, Align align, const std::string& hint) {
  std::string open = "th scope=\"col\"";
  if (align == Align::kRight) open += " class=\"number\"";
  if (!hint.empty()) open += " title=\"" + escape_html(hint) + "\"";
  head.push_back(element(open, title));
}

std::string HtmlTable::html() const {
  const auto row_of = [](const std::vector<std::string>& cells) {
    std::string row = "<tr>";
    for (const auto& cell : cells) row += cell;
    return row + "</tr>";
  };
  std::string text = "<div class=\"" + box_classes + "\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                     escape_html(label) + "\">\n<table class=\"" + classes + "\">\n<thead>" + row_of(head) +
                     "</thead>\n<tbody>\n";
  for (const auto& row : rows) text += row_of(row) + "\n";
  return text + "</tbody>\n</table>\n</div>\n";
}

}  // namespace stiefel::base
