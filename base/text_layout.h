#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stiefel::base {

/// Characters, not bytes.
size_t text_width(const std::string& text);

/// The text's first characters, at most that many.
std::string text_start(const std::string& text, size_t width);

/// Text in lines of at most that many characters, broken between words.
std::vector<std::string> wrapped(const std::string& text, size_t length);

}  // namespace stiefel::base
