#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config.h"

/// A run's record, run.json: what was run, by which command, where and when.
namespace stiefel::train {

/// What every record says. A training run and a measurement add what they found.
nlohmann::json run_facts(const std::filesystem::path& folder, const std::vector<std::string>& command,
                         const std::string& started, const Config& config, const c10::Device& device);

void write_run_facts(const std::filesystem::path& folder, const nlohmann::json& facts);

/// The parts that the run in the folder was made of so far, oldest first, each with its command, commit,
/// start, hardware and versions. None where there is no record, or none that is JSON.
nlohmann::json parts_so_far(const std::filesystem::path& folder);

/// What the record in the folder says of the run: running, interrupted or finished. Empty where there is no
/// record, or none that is JSON.
std::string status_of(const std::filesystem::path& folder);

}  // namespace stiefel::train
