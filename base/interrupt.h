#pragma once

namespace stiefel::base {

/// While it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the program; a second SIGINT or
/// SIGTERM ends it at once. A SIGHUP that the program was started to ignore (by nohup) stays ignored.
/// One inside another changes nothing: what the outer one has noted, the inner one knows.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that came, or 0.
  static int signal();
};

/// What a person calls a signal that InterruptGuard notes.
const char* signal_name(int signal);

}  // namespace stiefel::base
