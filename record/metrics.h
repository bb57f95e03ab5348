#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

/// What the epochs of a run gave: metrics.jsonl and metrics.csv.
namespace stiefel::record {

/// What one epoch gave. Errors are in per cent. A loss that is not finite is null in JSON. NaN, or nothing
/// where the method does not have the metric: the file does not say.
struct EpochMetrics {
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

  int64_t epoch = 0;  ///< counted from 1
  int64_t step = 0;   ///< optimiser steps so far
  double train_loss = kMissing;
  double train_error = kMissing;
  std::optional<double> validation_error;  ///< where images were set aside for it
  double test_loss = kMissing;
  double test_error = kMissing;
  std::optional<double> rate_manifold;  ///< learning rate of orthonormal weights
  double rate_euclidean = kMissing;     ///< learning rate of the other parameters
  double seconds = kMissing;            ///< of training so far
  double epoch_seconds = kMissing;
  double images_per_second = kMissing;
  std::optional<double> defect_max;  ///< ‖XᴴX − I‖_F over the constrained weights
  std::optional<double> defect_mean;
  std::optional<int64_t> skipped_steps;  ///< matrices left in place because of their gradient

  /// The error by which the best epoch is chosen.
  double deciding_error() const { return validation_error.value_or(test_error); }
};

/// A metric as a number, NaN where the epoch does not have it: metric<&EpochMetrics::defect_max>(epoch).
using Metric = double (*)(const EpochMetrics&);

namespace detail {
inline double number_of(double value) { return value; }
inline double number_of(int64_t value) { return static_cast<double>(value); }
template <class Value>
double number_of(const std::optional<Value>& value) {
  return value ? number_of(*value) : EpochMetrics::kMissing;
}
}  // namespace detail

template <auto member>
double metric(const EpochMetrics& epoch) {
  return detail::number_of(epoch.*member);
}

void to_json(nlohmann::json& json, const EpochMetrics& metrics);

/// Throws std::invalid_argument that names a metric whose value is not a number.
void from_json(const nlohmann::json& json, EpochMetrics& metrics);

/// A column of metrics.csv, which is a key of metrics.jsonl.
struct MetricColumn {
  const char* name;
  Metric value;
  /// Gives an epoch the metric, NaN where it was not finite. Throws std::invalid_argument where a count is
  /// too large.
  void (*set)(EpochMetrics& epoch, double value);
};

/// All columns, in their order.
const std::vector<MetricColumn>& metric_columns();

/// Writes metrics.jsonl and metrics.csv again: a few kilobytes, so that a file is always whole and always
/// agrees with the checkpoint beside it.
void write_metrics(const std::filesystem::path& folder, const std::vector<EpochMetrics>& history);

/// The epochs of a folder's metrics.jsonl, increasing; none where there is no such file. Where a line goes
/// back to an earlier epoch, which is what a run that was resumed by an early version wrote, it replaces that
/// epoch and all after it. A last line that was cut short while it was written is left out. `warnings` gets a
/// sentence for each of these. Throws std::runtime_error naming the file, the line and the remedy where a
/// line is damaged.
std::vector<EpochMetrics> read_metrics(const std::filesystem::path& folder,
                                       std::vector<std::string>& warnings);

/// The same of a file that has been read already; empty where there is none.
std::vector<EpochMetrics> parse_metrics(const std::filesystem::path& file, const std::string& content,
                                        std::vector<std::string>& warnings);

/// What metrics.jsonl holds of these epochs.
std::string metrics_lines(const std::vector<EpochMetrics>& history);

/// The first epoch with the least deciding error; there must be one.
const EpochMetrics& best_epoch(const std::vector<EpochMetrics>& epochs);

/// Whether `patience` epochs have brought nothing better; never where it is 0.
inline bool has_stalled(int64_t epoch, int64_t best_epoch, int64_t patience) {
  return patience > 0 && epoch - best_epoch >= patience;
}

}  // namespace stiefel::record
