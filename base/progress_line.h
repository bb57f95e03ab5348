#pragma once

#include <cstdint>
#include <string>

#include "stopwatch.h"
#include "terminal_line.h"

namespace stiefel::base {

/// Shows on the error stream what is being measured: on a terminal in one line that is overwritten, elsewhere
/// a line every ten seconds.
class ProgressLine {
 public:
  void now(const std::string& what);

  /// Replaces the line by the number of calls of now() and the time that they took.
  void done();

 private:
  TerminalLine line_{stderr};
  Stopwatch stopwatch_;
  int64_t runs_ = 0;
};

}  // namespace stiefel::base
