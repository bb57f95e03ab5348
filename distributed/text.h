#pragma once

#include <functional>
#include <string>

#include "world.h"

namespace stiefel::distributed {

/// Rank 0's text, on every rank.
std::string broadcast_text(World& world, const std::string& text);

/// What `act` returns on rank 0, on every rank; it runs on rank 0 alone. Where it throws, every rank throws
/// SharedError with its message. Without a world it is just called.
std::string ask_rank_0(World* world, const std::function<std::string()>& act);

}  // namespace stiefel::distributed
