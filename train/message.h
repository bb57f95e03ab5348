#pragma once

#include <exception>
#include <string>

namespace stiefel::train {

/// What an error says to a person: LibTorch's without the addresses that it adds, ours without the library's
/// name, which the command puts before every message itself.
std::string message_of(const std::exception& error);

}  // namespace stiefel::train
