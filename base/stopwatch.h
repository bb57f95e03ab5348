#pragma once

#include <chrono>

namespace stiefel::base {

/// The time since it was made, by a clock that never jumps. Work on an accelerator has to be synchronized by
/// the caller: a stopwatch sees the host alone.
class Stopwatch {
 public:
  Stopwatch() : start_(Clock::now()) {}

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

}  // namespace stiefel::base
