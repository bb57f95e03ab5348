#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "runs/metrics.h"

namespace stiefel::train {

/// What a person sees of a run: a bar for the epoch under way on a terminal, and a line for each finished
/// epoch anywhere.
class Display {
 public:
  /// `epochs` in all; `constrained` whether there is a defect to show.
  Display(int64_t epochs, int64_t steps_per_epoch, bool constrained);

  /// The heading of the table; `defect` is what the weights start with, where they are orthonormal.
  void begin(std::optional<double> defect);

  /// Whether the bar wants numbers now; asking for them on every step would stall an accelerator.
  bool is_due();

  /// The bar: the epoch under way, its mean loss and error in per cent so far, and the time left of the run.
  void update(int64_t epoch, int64_t step, double loss, double error, double images_per_second,
              double seconds_left);
  void finish_epoch(const runs::EpochMetrics& metrics);

  /// A line between the others.
  void note(const std::string& text) const;
  void clear() const;

 private:
  int64_t epochs_;
  int64_t steps_;
  bool constrained_;
  bool terminal_;
  std::optional<double> defect_;  // the last that was measured
  std::chrono::steady_clock::time_point last_{};
};

/// 75 as "1 min 15 s".
std::string duration(double seconds);

}  // namespace stiefel::train
