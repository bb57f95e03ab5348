#include "utf8.h"

#include <cstdint>

namespace stiefel::base {

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
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};  // of a character of that many bytes
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kSmallest[size] || code > 0x10ffff || surrogate ? 0 : size;
}

}  // namespace stiefel::base
