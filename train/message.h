#pragma once

#include <exception>
#include <string>

namespace stiefel::train {

/// What an error says to a person: LibTorch's without the addresses that it adds.
std::string message_of(const std::exception& error);

}  // namespace stiefel::train
