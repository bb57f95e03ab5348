#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace stiefel::report {

/// The commits that a run's record names, in order: of its earlier parts where it was continued, and the last
/// one's. One that follows itself is named once.
std::vector<std::string> commits_of(const nlohmann::json& facts);

}  // namespace stiefel::report
