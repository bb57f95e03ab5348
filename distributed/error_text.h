#pragma once

#include <chrono>
#include <exception>
#include <string>

/// What messages are made of.
namespace stiefel::distributed {

/// The first line of what c10d says about an error, without the addresses that it adds.
std::string error_text(const std::exception& error);

/// To the second: "60 s", "5 min 00 s".
std::string duration_text(std::chrono::milliseconds time);

}  // namespace stiefel::distributed
