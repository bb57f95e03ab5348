#include "progress_line.h"

#include <unistd.h>

#include <cstdio>

namespace stiefel::base {

void ProgressLine::now(const std::string& what) {
  ++runs_;
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const auto time = Clock::now();
  if (time - last_ < (terminal ? std::chrono::milliseconds(100) : std::chrono::seconds(10))) return;
  last_ = time;
  const double elapsed = std::chrono::duration<double>(time - start_).count();
  std::fprintf(stderr, terminal ? "\r\033[K%4.0f s  run %lld  %s" : "%4.0f s  run %lld  %s\n", elapsed,
               static_cast<long long>(runs_), what.c_str());
  std::fflush(stderr);
}

void ProgressLine::done() {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  std::fprintf(stderr, "%s%lld runs in %.0f s\n", isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "",
               static_cast<long long>(runs_), elapsed);
}

}  // namespace stiefel::base
