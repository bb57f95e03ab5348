#pragma once

namespace stiefel::train {

/// While it lives, SIGINT and SIGTERM are noted instead of ending the program; a second one ends it at once.
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

}  // namespace stiefel::train
