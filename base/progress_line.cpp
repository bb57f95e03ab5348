#include "progress_line.h"

#include <cstdio>

namespace stiefel::base {

void ProgressLine::now(const std::string& what) {
  ++runs_;
  if (!line_.is_due(line_.is_terminal() ? std::chrono::milliseconds(100) : std::chrono::seconds(10))) return;
  char before[64];
  std::snprintf(before, sizeof before, "%4.0f s  run %lld  ", stopwatch_.seconds(),
                static_cast<long long>(runs_));
  if (line_.is_terminal()) {
    line_.show(before + what);
  } else {
    line_.print(before + what);
  }
}

void ProgressLine::done() {
  char summary[64];
  std::snprintf(summary, sizeof summary, "%lld runs in %.0f s", static_cast<long long>(runs_),
                stopwatch_.seconds());
  line_.print(summary);
}

}  // namespace stiefel::base
