#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace stiefel::base {

/// Says on the error stream what is being measured: on a terminal in one line that is overwritten, elsewhere
/// a line every ten seconds.
class ProgressLine {
 public:
  void now(const std::string& what);
  void done();

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
  int64_t runs_ = 0;
};

}  // namespace stiefel::base
