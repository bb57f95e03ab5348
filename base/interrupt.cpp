#include "interrupt.h"

#include <array>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace stiefel::base {

namespace {

constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};

// A launcher passes the terminal's signal on to processes that have had it from the terminal already.
constexpr int64_t kSameSignal = 300;  // milliseconds

volatile std::sig_atomic_t received = 0;
volatile int64_t received_at = 0;
int guards = 0;
std::array<struct sigaction, kSignals.size()> old_actions;

int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called in a signal handler
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

void note(int signal) {
  if (received != 0) {
    if (signal == received && milliseconds() - received_at < kSameSignal) return;
    // A terminal that goes away sends SIGHUP, and the shell that it belonged to sends another.
    if (signal == SIGHUP) return;
    // Asked twice: do what the signal would have done.
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  received_at = milliseconds();
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
