#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace stiefel::distributed {

/// The first of what a program at a place says to a connection before it is asked anything, as SSH and mail
/// servers do; empty where nothing answers there, or what does waits to be asked for so long. A store of
/// ranks waits; c10d of LibTorch 1.13 ends the process where another program does not.
std::string greeting_of(const std::string& host, int64_t port, std::chrono::milliseconds limit);

}  // namespace stiefel::distributed
