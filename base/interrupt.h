#pragma once

namespace stiefel::base {

/// While it exists, SIGINT, SIGTERM and SIGHUP are noted instead of ending the program; a second SIGINT or
/// SIGTERM ends it at once. A SIGHUP that the program was started to ignore (by nohup) stays ignored.
/// An inner guard changes nothing: it returns the signal that the outer one noted.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that came, or 0.
  static int signal();
};

/// The name of a signal that InterruptGuard notes, for messages.
const char* signal_name(int signal);

}  // namespace stiefel::base
