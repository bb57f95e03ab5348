#include "text_layout.h"

#include <algorithm>
#include <sstream>

namespace stiefel::base {

size_t text_width(const std::string& text) {
  // Of a character's bytes in UTF-8 all but the first begin with the bits 10.
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<std::string> wrapped(const std::string& text, size_t length) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && text_width(lines.back()) + 1 + text_width(word) > length)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

}  // namespace stiefel::base
