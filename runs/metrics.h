#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace stiefel::train {

/// What one epoch gave. Errors are in per cent; what a method does not have is left out.
struct EpochMetrics {
  int64_t epoch = 0;  ///< counted from 1
  int64_t step = 0;   ///< optimiser steps so far
  double train_loss = 0;
  double train_error = 0;
  std::optional<double> validation_error;
  double test_loss = 0;
  double test_error = 0;
  std::optional<double> rate_manifold;
  double rate_euclidean = 0;
  double seconds = 0;  ///< of training so far
  double epoch_seconds = 0;
  double images_per_second = 0;
  std::optional<double> defect_max;
  std::optional<double> defect_mean;
  int64_t skipped_steps = 0;

  /// The error by which the best epoch is chosen.
  double deciding_error() const { return validation_error.value_or(test_error); }
};

void to_json(nlohmann::json& json, const EpochMetrics& metrics);
void from_json(const nlohmann::json& json, EpochMetrics& metrics);

/// Writes metrics.jsonl and metrics.csv anew: a few kilobytes, so that a file is always whole and always
/// agrees with the checkpoint beside it.
void write_metrics(const std::filesystem::path& folder, const std::vector<EpochMetrics>& history);

}  // namespace stiefel::train
