#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "record/certified_images.h"
#include "record/metrics.h"

namespace stiefel::report {

/// What a file does not say. A loss that is not finite is written as null, so it reads as missing too.
constexpr double kMissing = record::EpochMetrics::kMissing;

/// One line of metrics.jsonl.
using Epoch = record::EpochMetrics;
using record::metric;
using record::Metric;

using Pair = std::pair<std::string, std::string>;

/// A run as the page shows it: what was found in its folder, or in a kept run's file, as text and numbers.
/// Text that is missing is empty, a missing number is kMissing.
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

  std::vector<Pair> settings;                     // config.toml, in its order
  std::vector<Epoch> epochs;                      // never empty, epochs increasing
  std::vector<record::CertifiedImage> certified;  // empty where nothing was certified
  std::vector<std::string> warnings;
};

/// Reads a run folder or a kept run's file. Throws std::runtime_error naming the file, the line and the
/// remedy where the folder is missing or not a run's, where a file is damaged, and where no epoch is finished
/// yet.
RunFolder read_run_folder(const std::filesystem::path& folder);

}  // namespace stiefel::report
