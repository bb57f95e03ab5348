#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "record/config.h"
#include "record/run_folder.h"

namespace stiefel::paper {

/// A run's folder, or a kept run's file, whose config this version reads, and whose facts have the types that
/// they are used as. A measurement (of unitariness) has no epochs; its results are among the facts.
struct RunRecord : record::RunFolder {
  record::Config config;

  bool finished() const;
  /// The first with the least deciding error; there must be epochs.
  const record::EpochMetrics& best_epoch() const { return record::best_epoch(epochs); }
  std::string device() const { return facts.value("device", std::string()); }
};

/// Reads a run's folder or a kept run's file; nothing where it is neither (the folder lacks config.toml or
/// run.json). Throws std::runtime_error naming the file that is damaged, or cut: a finished run has all its
/// epochs.
std::optional<RunRecord> read_run_record(const std::filesystem::path& path);

/// Where a run's numbers come from: command, commit, hardware, LibTorch, seed, seconds, date, folder or file.
nlohmann::json provenance(const RunRecord& record);

}  // namespace stiefel::paper
