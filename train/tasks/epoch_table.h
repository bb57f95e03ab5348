#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace stiefel::train {

/// What the host decides about an epoch's batches, one row per step, as a table on the device, and the number
/// of the next row, which is on the device too: taking a row needs nothing from the host, so it can be part
/// of a captured step. The table keeps its address from epoch to epoch.
class EpochTable {
 public:
  explicit EpochTable(const c10::Device& device);

  /// Makes a step's row the next. `make` gives the epoch's table, (steps, …), on the CPU, where another
  /// epoch's is at hand. Every call is to be followed by one next(), or by the replay of one.
  void seek(int64_t epoch, int64_t step, const std::function<at::Tensor()>& make);

  /// The row that was sought; the one after it comes next.
  at::Tensor next();

 private:
  at::Tensor table_;
  at::Tensor next_row_;  // int64 (1), on the device
  int64_t epoch_ = -1;   // whose table is at hand
  int64_t step_ = -1;    // what next_row_ will hold when everything queued is done
};

}  // namespace stiefel::train
