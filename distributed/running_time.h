#pragma once

#include <algorithm>
#include <chrono>

namespace stiefel::distributed {

/// Measures time from look to look. Only time during which this process itself ran counts, so that a run that
/// is suspended as a whole takes nobody for silent when it goes on.
class RunningTime {
 public:
  /// `pause`: how long whoever looks waits between two looks. What goes far beyond it was a suspension.
  explicit RunningTime(std::chrono::milliseconds pause) : most_(2 * pause), last_(Clock::now()) {}

  std::chrono::milliseconds since_last_look() {
    const auto now = Clock::now();
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_);
    last_ = now;
    return std::min(passed, most_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::milliseconds most_;
  Clock::time_point last_;
};

}  // namespace stiefel::distributed
