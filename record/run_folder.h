#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config_entries.h"
#include "metrics.h"

namespace stiefel::record {

/// A run as the trainer left it on the disk: run.json, config.toml and metrics.jsonl, read but not judged.
/// Any version may have written it. Of a kept run (kept_run.h) one file has all three.
struct RunFolder {
  std::filesystem::path folder;  ///< or the kept run's file
  std::string name;              ///< of the folder, or of the file without .json
  std::filesystem::path facts_file;
  std::filesystem::path config_file;
  std::filesystem::path metrics_file;
  nlohmann::json facts;               ///< run.json, an object
  std::vector<ConfigEntry> settings;  ///< config.toml
  std::vector<EpochMetrics> epochs;   ///< metrics.jsonl, epochs increasing; none where there is no such file
  std::vector<std::string> warnings;  ///< what was left out or is missing, a sentence each
};

/// Reads a run folder. Throws std::runtime_error naming the file, the line and the remedy where the folder is
/// missing or not a run's, and where a file is damaged.
RunFolder read_run(const std::filesystem::path& folder);

/// Whether a new run may use a folder that exists: it is empty, or holds only the temporary file of a run
/// that was killed while it wrote its first file, config.toml.
bool is_unused(const std::filesystem::path& folder);

}  // namespace stiefel::record
