#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace stiefel::record {

/// Facts about the machine and the software, for run.json and `stiefel info`.
nlohmann::json hardware_facts();
nlohmann::json version_facts();

/// The commit that this program was built from, or "unknown".
std::string commit();

/// Now, as 2026-01-31T12:00:00Z.
std::string timestamp();

}  // namespace stiefel::record
