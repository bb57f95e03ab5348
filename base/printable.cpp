#include "printable.h"

#include <algorithm>

#include "utf8.h"

namespace stiefel::base {

namespace {

/// Whether a terminal may act on the character instead of showing it: C0, DEL and C1.
bool is_control(const std::string& text, size_t at, size_t size) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (size == 1) return first < 0x20 || first == 0x7f;
  return size == 2 && first == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

std::string escape_byte(unsigned char byte) {
  switch (byte) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      constexpr const char* kDigits = "0123456789abcdef";
      return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
}

/// Copies the text, giving each byte that is not to be shown as it is to `escaped`.
template <class Escaped>
std::string copy(const std::string& text, const Escaped& escaped) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto size = character_size(text, at);
    if (size > 0 && !is_control(text, at, size)) {
      result.append(text, at, size);
      at += size;
      continue;
    }
    for (const auto end = at + std::max<size_t>(size, 1); at < end; ++at) {
      result += escaped(static_cast<unsigned char>(text[at]));
    }
  }
  return result;
}

}  // namespace

std::string printable(const std::string& text) { return copy(text, escape_byte); }

std::string printable_lines(const std::string& text) {
  return copy(text, [](unsigned char byte) { return byte == '\n' ? std::string("\n") : escape_byte(byte); });
}

std::string shell_quoted(const std::string& word) {
  constexpr const char* kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  const bool escapes = printable(word) != word;
  std::string quoted = escapes ? "$'" : "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += escapes ? "\\'" : "'\\''";
    } else if (c == '\\' && escapes) {
      quoted += "\\\\";
    } else {
      quoted += c;
    }
  }
  return (escapes ? printable(quoted) : quoted) + "'";
}

std::string shell_word(const std::filesystem::path& path) {
  const auto word = path.string();
  return shell_quoted(!word.empty() && word[0] == '-' ? "./" + word : word);
}

}  // namespace stiefel::base
