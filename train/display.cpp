#include "display.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace stiefel::train {

namespace {

/// Never throws: where the output is full or its terminal is gone, training goes on, and the end of the
/// command tells.
template <class... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  const auto text = fmt::format(format, std::forward<Values>(values)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Display::Display(int64_t epochs, int64_t steps_per_epoch, bool constrained)
    : epochs_(epochs),
      steps_(steps_per_epoch),
      constrained_(constrained),
      terminal_(isatty(fileno(stdout)) != 0) {}

void Display::begin(std::optional<double> defect) {
  defect_ = defect;
  print("{:>9}  {:>8}  {:>7}  {:>7}  {:>9}{}  {:>8}  {:>9}\n", "epoch", "loss", "train %", "test %", "rate",
        constrained_ ? fmt::format("  {:>8}", "defect") : "", "images/s", "left");
  std::fflush(stdout);
}

bool Display::is_due() {
  if (!terminal_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(250)) return false;
  last_ = now;
  return true;
}

void Display::update(int64_t epoch, int64_t step, double loss, double error, double images_per_second,
                     double seconds_left) {
  constexpr int64_t width = 24;
  const auto filled = width * step / steps_;
  std::string bar;
  for (int64_t i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  print("\r\033[K{:>5}/{}  {} {:3} %  loss {:.4f}  error {:.2f} %  {:.0f} images/s{}  {} left", epoch,
        epochs_, bar, 100 * step / steps_, loss, error, images_per_second,
        defect_ ? fmt::format("  defect {:.1e}", *defect_) : "", duration(seconds_left));
  std::fflush(stdout);
}

void Display::clear() const {
  if (terminal_) print("\r\033[K");
  std::fflush(stdout);
}

void Display::note(const std::string& text) const {
  clear();
  print("{}\n", text);
  std::fflush(stdout);
}

void Display::finish_epoch(const runs::EpochMetrics& m) {
  clear();
  defect_ = m.defect_max;
  const auto left = m.seconds / static_cast<double>(m.epoch) * static_cast<double>(epochs_ - m.epoch);
  print("{:>9}  {:8.4f}  {:7.2f}  {:7.2f}  {:9.3g}{}  {:8.0f}  {:>9}\n",
        fmt::format("{}/{}", m.epoch, epochs_), m.train_loss, m.train_error, m.test_error,
        m.rate_manifold.value_or(m.rate_euclidean),
        constrained_ ? fmt::format("  {:8.1e}", m.defect_max.value_or(0)) : "", m.images_per_second,
        m.epoch < epochs_ ? duration(left) : "");
  if (m.skipped_steps > 0) {
    print(
        "           {} steps of a matrix were skipped so far: its gradient was not finite, or its retraction "
        "failed\n",
        *m.skipped_steps);
  }
  std::fflush(stdout);
}

}  // namespace stiefel::train
