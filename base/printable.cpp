#include "printable.h"

#include <algorithm>
#include <cstdint>

namespace stiefel::base {

namespace {

/// The bytes of the UTF-8 character that begins here, or 0 where none does.
size_t character_size(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto first = byte(at);
  const size_t size = first < 0x80         ? 1
                      : first >> 5 == 0x6  ? 2
                      : first >> 4 == 0xe  ? 3
                      : first >> 3 == 0x1e ? 4
                                           : 0;
  if (size < 2) return size;
  uint32_t code = first & (0xffU >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if (byte(at + i) >> 6 != 0x2) return 0;
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[size] || code > 0x10ffff || surrogate ? 0 : size;
}

/// Whether a terminal may act on the character instead of showing it: C0, DEL and C1.
bool is_control(const std::string& text, size_t at, size_t size) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (size == 1) return first < 0x20 || first == 0x7f;
  return size == 2 && first == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

std::string escape(unsigned char byte) {
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

std::string printable(const std::string& text) { return copy(text, escape); }

std::string printable_lines(const std::string& text) {
  return copy(text, [](unsigned char byte) { return byte == '\n' ? std::string("\n") : escape(byte); });
}

std::string shell_word(const std::filesystem::path& path) {
  auto word = path.string();
  if (!word.empty() && word[0] == '-') word = "./" + word;
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

}  // namespace stiefel::base
