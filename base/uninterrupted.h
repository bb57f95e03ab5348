#pragma once

#include <cerrno>

namespace stiefel::base {

/// Makes a system call again while a signal interrupts it. Not for close(): on Linux the descriptor is closed
/// all the same.
template <class Call>
auto uninterrupted(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

}  // namespace stiefel::base
