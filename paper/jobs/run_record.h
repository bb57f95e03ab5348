#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "record/config.h"
#include "record/run_folder.h"

namespace stiefel::paper {

/// A run's folder whose config this version reads, and whose facts have the types that they are used as. A
/// measurement (of unitariness) has no epochs; its results are in run.json.
struct RunRecord : record::RunFolder {
  record::Config config;

  bool finished() const;
  /// The first with the least deciding error; there must be epochs.
  const record::EpochMetrics& best_epoch() const { return record::best_epoch(epochs); }
  std::string device() const { return facts.value("device", std::string()); }
};

/// Reads a run's folder; nothing where it is not a run's (it lacks config.toml or run.json). Throws
/// std::runtime_error naming the file that is damaged, or cut: a finished run has all its epochs.
std::optional<RunRecord> read_run_record(const std::filesystem::path& folder);

/// Where a run's numbers come from: command, commit, hardware, LibTorch, seed, seconds, date, folder.
nlohmann::json provenance(const RunRecord& record);

}  // namespace stiefel::paper
