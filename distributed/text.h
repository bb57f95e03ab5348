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

/// Whether any rank says so, on every rank. Without a world it is what this process says.
bool any_rank_says(World* world, bool says);

}  // namespace stiefel::distributed
