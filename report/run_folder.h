#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace stiefel::report {

/// What a file does not say. A loss that is not finite is written as null, so it reads as missing too.
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// One line of metrics.jsonl. Errors are in per cent; `seconds` is the training time so far.
struct Epoch {
  double epoch = kMissing;
  double step = kMissing;
  double train_loss = kMissing;
  double train_error = kMissing;
  double validation_error = kMissing;  // where images were set aside for it
  double test_loss = kMissing;
  double test_error = kMissing;
  double rate_manifold = kMissing;
  double rate_euclidean = kMissing;
  double seconds = kMissing;
  double epoch_seconds = kMissing;
  double images_per_second = kMissing;
  double defect_max = kMissing;
  double defect_mean = kMissing;
  double skipped_steps = kMissing;
};

/// A column of metrics.jsonl: its key and where it is kept.
struct Metric {
  const char* key;
  double Epoch::*value;
};

/// All columns, in the order of `Epoch`.
const std::vector<Metric>& metrics();

using Pair = std::pair<std::string, std::string>;

/// A run as the trainer left it on the disk: run.json, config.toml and metrics.jsonl. Text that is missing is
/// empty, a missing number is kMissing.
struct RunFolder {
  std::filesystem::path folder;

  std::string name;  // the folder's own where run.json has none
  std::vector<std::string> command;
  std::string commit;
  std::string version;
  std::string status;  // finished, interrupted or running
  std::string started;
  double seconds = kMissing;
  std::string seed;
  std::string data;
  std::string model;
  std::string optim;
  double parameters = kMissing;
  double manifold_parameters = kMissing;
  double manifold_matrices = kMissing;
  std::string device;
  std::string cpu;
  double cores = kMissing;
  double memory_gib = kMissing;
  std::string gpu;
  std::vector<Pair> versions;

  std::vector<Pair> settings;  // config.toml, in its order
  std::vector<Epoch> epochs;   // never empty, epochs increasing
  std::vector<std::string> warnings;
};

/// Reads a run folder. Throws std::runtime_error naming the file, the line and the remedy where the folder is
/// missing or not a run's, where a file is damaged, and where no epoch is finished yet. A last line of
/// metrics.jsonl that was cut short (a crash while it was written) is left out and noted in `warnings`.
RunFolder read_run_folder(const std::filesystem::path& folder);

}  // namespace stiefel::report
