#pragma once

#include <exception>
#include <string>

namespace stiefel::distributed {

/// The first line of what c10d says about an error, without the addresses that it adds.
std::string error_text(const std::exception& error);

}  // namespace stiefel::distributed
