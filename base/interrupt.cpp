#include "interrupt.h"

#include <array>
#include <csignal>

namespace stiefel::base {

namespace {

constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t received = 0;
int guards = 0;
std::array<struct sigaction, kSignals.size()> old_actions;

void note(int signal) {
  if (received != 0) {
    // A terminal that goes away sends SIGHUP, and the shell that it belonged to sends another.
    if (signal == SIGHUP) return;
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
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &old_actions[i]);
    if (kSignals[i] == SIGHUP && old_actions[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  if (--guards > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_actions[i], nullptr);
}

int InterruptGuard::signal() { return received; }

const char* signal_name(int signal) {
  return signal == SIGINT ? "Ctrl-C" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

}  // namespace stiefel::base
