#pragma once

#include <cstddef>
#include <string>

namespace stiefel::base {

/// The bytes of the UTF-8 character that begins at `at`; 0 where none does: at a stray or missing
/// continuation byte, an overlong form, a surrogate or a number beyond Unicode.
size_t character_size(const std::string& text, size_t at);

}  // namespace stiefel::base
