#pragma once

#include <filesystem>
#include <string>

#include "metrics.h"

namespace stiefel::record {

/// The few records of TensorBoard's event format that scalars need: protocol-buffer messages, encoded by
/// hand, in TFRecord framing (length, masked CRC-32C of the length, data, masked CRC-32C of the data).
std::string tensorboard_header(double wall_time);
std::string tensorboard_scalar(const std::string& tag, float value, int64_t step, double wall_time);

/// Writes an event file with every scalar of a run's history, in place of an older one of this run.
void write_tensorboard(const std::filesystem::path& folder, const std::vector<EpochMetrics>& history,
                       double started);

/// CRC-32C (Castagnoli), as TFRecord wants it before masking.
uint32_t crc32c(const std::string& bytes);

}  // namespace stiefel::record
