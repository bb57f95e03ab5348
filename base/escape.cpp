#include "escape.h"

#include <algorithm>

#include "utf8.h"

namespace stiefel::base {

namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

/// Removes every stretch from `from` up to the next `to`, or to the end.
void erase_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;)
    text.erase(at, text.find(to, at) - at);
}

}  // namespace

std::string valid_text(const std::string& text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_size(text, at);
    const bool control = length == 1 && (static_cast<unsigned char>(text[at]) < 0x20 || text[at] == 0x7f) &&
                         text[at] != '\t' && text[at] != '\n' && text[at] != '\r';
    if (length == 0 || control) {
      valid += "\xEF\xBF\xBD";
    } else {
      valid.append(text, at, length);
    }
    at += std::max<size_t>(1, length);
  }
  return valid;
}

std::string escape_html(const std::string& text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : valid_text(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string escape_json_for_script(const std::string& json) {
  std::string safe = json;
  // These occur in JSON only inside strings, where the escape means the same.
  replace_all(safe, "<", "\\u003c");
  replace_all(safe, ">", "\\u003e");
  replace_all(safe, "&", "\\u0026");
  return safe;
}

std::string escape_script(const std::string& code) {
  std::string safe = code;
  erase_all(safe, "//# sourceMappingURL=", "\n");
  replace_all(safe, "</script", "<\\/script");
  replace_all(safe, "<!--", "<\\!--");
  return safe;
}

std::string escape_style(const std::string& css) {
  std::string safe = css;
  erase_all(safe, "# sourceMappingURL=", "*/");  // leaves an empty comment
  replace_all(safe, "</style", "<\\/style");
  return safe;
}

}  // namespace stiefel::base
