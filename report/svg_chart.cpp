#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "report/charts.h"
#include "report/text.h"

// A chart drawn by hand: two axes, a grid and the lines. Colours and widths are page.css's, so that it
// follows the colour scheme and prints sharply.

namespace stiefel::report {

namespace {

constexpr double kWidth = 640, kHeight = 320;
constexpr double kLeft = 58, kRight = 12, kTop = 10, kBottom = 38;
constexpr size_t kMarksPerLine = 10;

std::string place(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f", value);
  return buffer;
}

std::string tick_label(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e6)) {
    std::string text = format_small(value);
    if (const auto zero = text.find(".0e"); zero != std::string::npos) text.erase(zero, 2);
    return text;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

/// An axis from data to pixels.
class Axis {
 public:
  Axis(double from, double to, bool log) : from_(from), to_(to), log_(log) {}

  void include(double value) {
    if (!std::isfinite(value) || (log_ && value <= 0)) return;
    least_ = std::min(least_, value);
    greatest_ = std::max(greatest_, value);
  }

  /// Room at both ends, and a range of its own for a single value.
  void settle(double margin) {
    if (least_ > greatest_) least_ = greatest_ = 1;
    double low = scale(least_), high = scale(greatest_);
    if (high - low < 1e-12 * std::max(1.0, std::abs(high))) {
      const double half = log_ ? 0.5 : std::max(0.5 * std::abs(high), 0.5);
      low -= half, high += half;
    } else {
      const double room = margin * (high - low);
      low -= room, high += room;
    }
    low_ = low, high_ = high;
  }

  double operator()(double value) const {
    return from_ + (scale(value) - low_) / (high_ - low_) * (to_ - from_);
  }

  bool shows(double value) const { return std::isfinite(value) && (!log_ || value > 0); }

  std::vector<double> ticks(int wanted, bool whole) const {
    std::vector<double> result;
    if (log_) result = log_ticks(wanted);
    if (result.size() < 3) result = linear_ticks(wanted, whole);
    return result;
  }

 private:
  double scale(double value) const { return log_ ? std::log10(value) : value; }
  double unscale(double value) const { return log_ ? std::pow(10, value) : value; }

  std::vector<double> log_ticks(int wanted) const {
    std::vector<double> result;
    const bool between = high_ - low_ < 2.5;  // decades
    const int stride = std::max(1, static_cast<int>(std::ceil((high_ - low_) / wanted)));
    for (int decade = static_cast<int>(std::floor(low_)); decade <= high_; ++decade) {
      if (decade % stride != 0) continue;
      for (const int digit : {1, 2, 5}) {
        const double value = std::stod(std::to_string(digit) + "e" + std::to_string(decade));
        const double at = std::log10(value);
        if ((digit == 1 || between) && at >= low_ && at <= high_) result.push_back(value);
      }
    }
    return result;
  }

  std::vector<double> linear_ticks(int wanted, bool whole) const {
    const double low = unscale(low_), high = unscale(high_);
    const double rough = (high - low) / wanted;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = power;
    for (const double factor : {2.0, 5.0, 10.0}) {
      if (step < rough) step = factor * power;
    }
    if (whole) step = std::max(1.0, std::round(step));
    std::vector<double> result;
    for (double i = std::ceil(low / step); i * step <= high; ++i) result.push_back(i == 0 ? 0 : i * step);
    return result;
  }

  double from_, to_;
  bool log_;
  double least_ = std::numeric_limits<double>::infinity();
  double greatest_ = -std::numeric_limits<double>::infinity();
  double low_ = 0, high_ = 1;
};

Metric across_of(bool seconds) { return seconds ? metric<&Epoch::seconds> : metric<&Epoch::epoch>; }

std::string grid(const Axis& x, const Axis& y, bool seconds) {
  std::string out = "<g class=\"grid\">";
  for (const double value : y.ticks(5, false)) {
    const std::string at = place(y(value));
    out += "<path d=\"M" + place(kLeft) + " " + at + "H" + place(kWidth - kRight) + "\"/><text x=\"" +
           place(kLeft - 8) + "\" y=\"" + at + "\" dy=\".35em\" text-anchor=\"end\">" + tick_label(value) +
           "</text>";
  }
  for (const double value : x.ticks(7, !seconds)) {
    out += "<text x=\"" + place(x(value)) + "\" y=\"" + place(kHeight - kBottom + 18) +
           "\" text-anchor=\"middle\">" + tick_label(value) + "</text>";
  }
  return out + "<text class=\"unit\" x=\"" + place(kWidth - kRight) + "\" y=\"" + place(kHeight - 4) +
         "\" text-anchor=\"end\">" + (seconds ? "seconds of training" : "epoch") + "</text></g>";
}

/// Where an epoch begins on the axis; its values are drawn where it ends.
double start_of(const RunFolder& run, size_t i, bool seconds) {
  const auto& epoch = run.epochs[i];
  if (!seconds) return static_cast<double>(epoch.epoch - 1);
  if (i > 0 && std::isfinite(run.epochs[i - 1].seconds)) return run.epochs[i - 1].seconds;
  return std::isfinite(epoch.epoch_seconds) ? std::max(0.0, epoch.seconds - epoch.epoch_seconds) : 0;
}

/// The points of a line as a path; a missing value breaks it. In steps, a value is drawn along the whole
/// epoch that it was used in.
std::string line_path(const RunFolder& run, const Line& line, bool seconds, const Axis& x, const Axis& y,
                      bool steps, std::string& marks, size_t number) {
  const Metric across = across_of(seconds);
  std::string path;
  bool pen_down = false;
  const size_t every = std::max<size_t>(1, run.epochs.size() / kMarksPerLine);
  for (size_t i = 0; i < run.epochs.size(); ++i) {
    const double value = line.value(run.epochs[i]);
    if (!y.shows(value) || !std::isfinite(across(run.epochs[i]))) {
      pen_down = false;
      continue;
    }
    const double px = x(across(run.epochs[i])), py = y(value);
    if (steps) {
      path += (pen_down ? "V" + place(py) : "M" + place(x(start_of(run, i, seconds))) + " " + place(py)) +
              "H" + place(px);
    } else {
      path += (pen_down ? "L" : "M") + place(px) + " " + place(py);
      if (!pen_down) path += "h0";  // with round caps, a lone point is a dot
    }
    if (i % every == 0) marks += svg_mark(number, px, py);
    pen_down = true;
  }
  return path;
}

}  // namespace

std::string svg_mark(size_t run, double x, double y) {
  const std::string px = place(x), py = place(y);
  switch (run / kColours % 4) {
    case 1:
      return "<circle class=\"mark\" cx=\"" + px + "\" cy=\"" + py + "\" r=\"3.2\"/>";
    case 2:
      return "<path class=\"mark\" d=\"M" + px + " " + py + "m-3-3h6v6h-6z\"/>";
    case 3:
      return "<path class=\"mark\" d=\"M" + px + " " + py + "m0-4 4 7h-8z\"/>";
    default:
      return "";
  }
}

std::string svg_chart(const Chart& chart, const std::vector<RunFolder>& runs,
                      const std::vector<std::string>& labels, bool seconds) {
  const Metric across = across_of(seconds);
  Axis x(kLeft, kWidth - kRight, false);
  Axis y(kHeight - kBottom, kTop, chart.log);
  for (const auto& run : runs) {
    // From the beginning of training, so that all charts of a page have the same axis.
    if (!run.epochs.empty()) x.include(start_of(run, 0, seconds));
    for (const auto& epoch : run.epochs) {
      x.include(across(epoch));
      for (const auto& line : chart.lines) y.include(line.value(epoch));
    }
  }
  x.settle(0.015);
  y.settle(0.05);
  std::string out = "<svg class=\"static by-" + std::string(seconds ? "seconds" : "epoch") +
                    "\" viewBox=\"0 0 " + place(kWidth) + " " + place(kHeight) +
                    "\" role=\"img\" aria-label=\"" + escape_html(chart.title) +
                    (seconds ? " over seconds" : " by epoch") + "\">" + grid(x, y, seconds);
  for (size_t r = 0; r < runs.size(); ++r) {
    out += "<g class=\"c" + std::to_string(r % kColours) + "\" data-run=\"" + std::to_string(r) + "\">";
    for (const auto& line : chart.lines) {
      std::string marks;
      const std::string path = line_path(runs[r], line, seconds, x, y, chart.steps, marks, r);
      if (path.empty()) continue;
      out += "<path class=\"line" + std::string(line.dashed ? " dashed" : "") + "\" d=\"" + path +
             "\"><title>" + escape_html(labels[r] + ", " + line.label) + "</title></path>" + marks;
    }
    out += "</g>";
  }
  return out + "</svg>";
}

}  // namespace stiefel::report
