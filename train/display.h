#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/table.h"
#include "base/terminal_line.h"
#include "record/metrics.h"

namespace stiefel::train {

/// What a person sees of a run on the standard output: a bar for the current epoch on a terminal, and a line
/// for each finished epoch anywhere.
class Display {
 public:
  /// `epochs` in all; `constrained`: whether there is a defect to show; `shown` false: nothing is written.
  Display(int64_t epochs, int64_t steps_per_epoch, bool constrained, bool shown = true);

  /// Writes the table's header; `defect` is what the weights start with, where they are orthonormal.
  void begin(std::optional<double> defect);

  /// Whether the bar has to be updated: a few times per second, as reading the values on every step would
  /// stall an accelerator.
  bool is_due();

  /// The bar: the current epoch, its mean loss and error in per cent so far, and the time left of the run.
  void update(int64_t epoch, int64_t step, double loss, double error, double images_per_second,
              double seconds_left);
  void finish_epoch(const record::EpochMetrics& metrics);

  /// Writes a line between the others.
  void note(const std::string& text);
  void clear();

 private:
  int64_t epochs_;
  int64_t steps_;
  bool constrained_;
  bool shown_;
  std::vector<base::Column> columns_;
  base::TerminalLine line_{stdout};
  std::optional<double> defect_;  // the last that was measured
};

}  // namespace stiefel::train
