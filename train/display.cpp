#include "display.h"

#include <fmt/format.h>

#include "base/format_number.h"

namespace stiefel::train {

Display::Display(int64_t epochs, int64_t steps_per_epoch, bool constrained, bool shown)
    : epochs_(epochs), steps_(steps_per_epoch), constrained_(constrained), shown_(shown), columns_{{9}, {8},
                                                                                                   {7}, {7},
                                                                                                   {9}, {8},
                                                                                                   {11}} {
  if (constrained) columns_.insert(columns_.begin() + 5, {8});
}

void Display::begin(std::optional<double> defect) {
  defect_ = defect;
  std::vector<std::string> titles{"epoch", "loss", "train %", "test %", "rate", "images/s", "left"};
  if (constrained_) titles.insert(titles.begin() + 5, "defect");
  if (shown_) line_.print(base::aligned_line(titles, columns_));
}

bool Display::is_due() {
  return shown_ && line_.is_terminal() && line_.is_due(std::chrono::milliseconds(250));
}

void Display::update(int64_t epoch, int64_t step, double loss, double error, double images_per_second,
                     double seconds_left) {
  constexpr int64_t width = 24;
  const auto filled = width * step / steps_;
  std::string bar;
  for (int64_t i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  line_.show(fmt::format("{:>5}/{}  {} {:3} %  loss {:.4f}  error {:.2f} %  {:.0f} images/s{}  {} left",
                         epoch, epochs_, bar, 100 * step / steps_, loss, error, images_per_second,
                         defect_ ? fmt::format("  defect {:.1e}", *defect_) : "",
                         base::format_duration(seconds_left)));
}

void Display::clear() {
  if (shown_) line_.clear();
}

void Display::note(const std::string& text) {
  if (shown_) line_.print(text);
}

void Display::finish_epoch(const record::EpochMetrics& m) {
  defect_ = m.defect_max;
  if (!shown_) return;
  const auto left = m.seconds / static_cast<double>(m.epoch) * static_cast<double>(epochs_ - m.epoch);
  std::vector<std::string> cells{fmt::format("{}/{}", m.epoch, epochs_),
                                 fmt::format("{:.4f}", m.train_loss),
                                 fmt::format("{:.2f}", m.train_error),
                                 fmt::format("{:.2f}", m.test_error),
                                 fmt::format("{:.3g}", m.rate_manifold.value_or(m.rate_euclidean)),
                                 fmt::format("{:.0f}", m.images_per_second),
                                 m.epoch < epochs_ ? base::format_duration(left) : ""};
  if (constrained_) cells.insert(cells.begin() + 5, fmt::format("{:.1e}", m.defect_max.value_or(0)));
  line_.print(base::aligned_line(cells, columns_));
  if (m.skipped_steps > 0) {
    line_.print(fmt::format(
        "           {} steps of a matrix were skipped so far: its gradient was not finite, or its "
        "retraction failed",
        *m.skipped_steps));
  }
}

}  // namespace stiefel::train
