#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config.h"

namespace stiefel::record {

/// What run.json says of every run that this program starts. A training run and a measurement add their
/// results.
nlohmann::json new_run_facts(const std::filesystem::path& folder, const std::vector<std::string>& command,
                             const std::string& started, const Config& config, const c10::Device& device);

}  // namespace stiefel::record
