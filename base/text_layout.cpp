#include "text_layout.h"

#include <algorithm>
#include <sstream>

namespace stiefel::base {

namespace {

/// Of a character's bytes in UTF-8 all but the first begin with the bits 10.
bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

size_t text_width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string text_start(const std::string& text, size_t width) {
  size_t characters = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (begins_character(text[at]) && characters++ == width) return text.substr(0, at);
  }
  return text;
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
