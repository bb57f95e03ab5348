#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runs/config.h"
#include "runs/metrics.h"

namespace stiefel::paper {

/// What a run's folder says: run.json, config.toml and metrics.jsonl. A measurement (of unitariness) has no
/// epochs; what it found is in run.json.
struct RunRecord {
  std::filesystem::path folder;
  nlohmann::json facts;
  train::Config config;
  std::vector<train::EpochMetrics> epochs;

  bool finished() const;
  /// The first with the least deciding error; there must be epochs.
  const train::EpochMetrics& best_epoch() const;
  std::string device() const { return facts.value("device", std::string()); }
};

/// Reads a run's folder; nothing where it is not a run's (it lacks config.toml or run.json). Throws
/// std::runtime_error naming the file that is damaged, or cut: a finished run has all its epochs.
std::optional<RunRecord> read_run(const std::filesystem::path& folder);

/// Where a run's numbers come from: command, commit, hardware, LibTorch, seed, seconds, date, folder.
nlohmann::json provenance(const RunRecord& record);

}  // namespace stiefel::paper
