#pragma once

#include <cstddef>
#include <type_traits>

namespace stiefel {

/// Whether a struct may travel between host and device as bytes, and has the size and alignment that both
/// compilers must give it. Asserted beside every struct that is a kernel's parameter or is copied to the
/// device, so that a member added to one is added on purpose.
template <class Struct, size_t kBytes, size_t kAlign = 8>
constexpr bool is_plain = std::is_trivially_copyable_v<Struct>&& std::is_standard_layout_v<Struct> &&
                          sizeof(Struct) == kBytes && alignof(Struct) == kAlign;

}  // namespace stiefel
