#include "report/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "runs/method_facts.h"

namespace stiefel::report {

namespace {

const char* const kNone = "–";

std::string format(const char* pattern, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

/// "8.1e-07" as 8.1e-7.
std::string exponent(const char* pattern, double value) {
  std::string text = format(pattern, value);
  const auto e = text.find('e');
  if (e == std::string::npos) return text;
  const auto digits = text.find_first_not_of('0', e + 2);
  if (digits == std::string::npos) return text.substr(0, e);
  return text.substr(0, e + 1) + (text[e + 1] == '-' ? "-" : "") + text.substr(digits);
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

/// The bytes of the character that begins at `at`; 0 where no UTF-8 does: a stray or missing continuation, an
/// overlong form, a surrogate or a number beyond Unicode.
size_t character_length(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    const unsigned next = byte(at + i);
    if (next < (i == 1 ? least : 0x80U) || next > (i == 1 ? most : 0xBFU)) return 0;
  }
  return length;
}

/// Takes out every stretch from `from` up to the next `to`, or to the end.
void erase_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;)
    text.erase(at, text.find(to, at) - at);
}

}  // namespace

std::string valid_text(const std::string& text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_length(text, at);
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

std::string format_percent(double value) { return std::isfinite(value) ? format("%.2f %%", value) : kNone; }

std::string format_loss(double value) {
  if (!std::isfinite(value)) return kNone;
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e5)) return exponent("%.2e", value);
  return format(size < 10 ? "%.4f" : "%.2f", value);
}

std::string format_small(double value) {
  if (!std::isfinite(value)) return kNone;
  return value == 0 ? "0" : exponent("%.1e", value);
}

std::string format_seconds(double value) {
  if (!std::isfinite(value)) return kNone;
  return format(value < 10 ? "%.2f s" : value < 100 ? "%.1f s" : "%.0f s", value);
}

std::string format_duration(double value) {
  if (!std::isfinite(value)) return kNone;
  if (value < 60) return format_seconds(value);
  char buffer[64];
  const auto seconds = std::llround(value);
  if (seconds < 3600) {
    std::snprintf(buffer, sizeof buffer, "%lld min %02lld s", seconds / 60, seconds % 60);
  } else {
    std::snprintf(buffer, sizeof buffer, "%lld h %02lld min", seconds / 3600, seconds % 3600 / 60);
  }
  return buffer;
}

std::string format_count(double value) {
  if (!std::isfinite(value)) return kNone;
  std::string digits = format("%.0f", value);
  const size_t sign = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string display_name(const std::string& name) {
  static const std::map<std::string, std::string> names = {
      // of data sets
      {"mnist", "MNIST"},
      {"fashion-mnist", "Fashion-MNIST"},
      {"cifar10", "CIFAR-10"},
      {"cifar100", "CIFAR-100"},
  };
  const auto found = names.find(name);
  return found == names.end() ? runs::method_title(name) : found->second;
}

}  // namespace stiefel::report
