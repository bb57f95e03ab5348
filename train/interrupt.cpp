#include "interrupt.h"

#include <csignal>

namespace stiefel::train {

namespace {

volatile std::sig_atomic_t received = 0;
int guards = 0;
struct sigaction old_int, old_term;

void note(int signal) {
  if (received != 0) {
    // Asked twice: do what the signal would have done.
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  received = signal;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  if (guards++ > 0) return;
  received = 0;
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_int);
  sigaction(SIGTERM, &action, &old_term);
}

InterruptGuard::~InterruptGuard() {
  if (--guards > 0) return;
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
}

int InterruptGuard::signal() { return received; }

}  // namespace stiefel::train
