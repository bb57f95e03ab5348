#include <algorithm>
#include <cmath>

#include "base/escape.h"
#include "base/svg_chart.h"
#include "report/charts.h"

// The charts for print and for pages without scripts. Colors and widths are page.css's, so that they follow
// the color scheme.

namespace stiefel::report {

namespace {

constexpr double kWidth = 640, kHeight = 320;
constexpr base::Box kPlot{58, 10, 628, 282};
constexpr size_t kMarksPerLine = 10;

Metric across_of(bool seconds) { return seconds ? metric<&Epoch::seconds> : metric<&Epoch::epoch>; }

/// Where an epoch begins on the axis; its values are drawn where it ends.
double start_of(const RunFolder& run, size_t i, bool seconds) {
  const auto& epoch = run.epochs[i];
  if (!seconds) return static_cast<double>(epoch.epoch - 1);
  if (i > 0 && std::isfinite(run.epochs[i - 1].seconds)) return run.epochs[i - 1].seconds;
  return std::isfinite(epoch.epoch_seconds) ? std::max(0.0, epoch.seconds - epoch.epoch_seconds) : 0;
}

/// The axes over everything that the runs have.
std::pair<base::Axis, base::Axis> axes_of(const Chart& chart, const std::vector<RunFolder>& runs,
                                          bool seconds) {
  base::Axis x(kPlot.left, kPlot.right, base::Axis::Scale::kLinear);
  base::Axis y(kPlot.bottom, kPlot.top, chart.log ? base::Axis::Scale::kLog : base::Axis::Scale::kLinear);
  for (const auto& run : runs) {
    // From the beginning of training, so that all charts of a page have the same axis.
    if (!run.epochs.empty()) x.include(start_of(run, 0, seconds));
    for (const auto& epoch : run.epochs) {
      x.include(across_of(seconds)(epoch));
      for (const auto& line : chart.lines) y.include(line.value(epoch));
    }
  }
  x.settle(0.015);
  y.settle(0.05);
  return {x, y};
}

/// In steps, a value is drawn along the whole epoch that it was used in.
std::string path_of(const RunFolder& run, const Line& line, bool seconds, bool steps, const base::Axis& x,
                    const base::Axis& y) {
  std::vector<base::Point> points;
  std::vector<base::Step> levels;
  for (size_t i = 0; i < run.epochs.size(); ++i) {
    const double across = across_of(seconds)(run.epochs[i]), value = line.value(run.epochs[i]);
    points.push_back({across, value});
    if (steps) levels.push_back({start_of(run, i, seconds), across, value});
  }
  return steps ? base::svg_steps(levels, x, y) : base::svg_line(points, x, y);
}

std::string marks_of(const RunFolder& run, const Line& line, bool seconds, size_t number, const base::Axis& x,
                     const base::Axis& y) {
  std::string marks;
  const size_t every = std::max<size_t>(1, run.epochs.size() / kMarksPerLine);
  for (size_t i = 0; i < run.epochs.size(); i += every) {
    const double across = across_of(seconds)(run.epochs[i]), value = line.value(run.epochs[i]);
    if (x.shows(across) && y.shows(value)) marks += svg_mark(number, x(across), y(value));
  }
  return marks;
}

}  // namespace

std::string svg_mark(size_t run, double x, double y) {
  const std::string px = base::svg_coordinate(x), py = base::svg_coordinate(y);
  switch (run / base::kChartColors % 4) {
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
  const auto [x, y] = axes_of(chart, runs, seconds);
  std::string out = "<svg class=\"static by-" + std::string(seconds ? "seconds" : "epoch") +
                    "\" viewBox=\"0 0 " + base::svg_coordinate(kWidth) + " " + base::svg_coordinate(kHeight) +
                    "\" role=\"img\" aria-label=\"" + base::escape_html(chart.title) +
                    (seconds ? " over seconds" : " by epoch") + "\"><g class=\"grid\">" +
                    base::svg_grid(kPlot, x, x.ticks(7, !seconds), y, y.ticks(5)) +
                    base::svg_text(kPlot.right, kHeight - 4, "class=\"unit\" text-anchor=\"end\"",
                                   seconds ? "seconds of training" : "epoch") +
                    "</g>";
  for (size_t r = 0; r < runs.size(); ++r) {
    out += "<g class=\"c" + std::to_string(r % base::kChartColors) + "\" data-run=\"" + std::to_string(r) +
           "\">";
    for (const auto& line : chart.lines) {
      const std::string path = path_of(runs[r], line, seconds, chart.steps, x, y);
      if (path.empty()) continue;
      out += "<path class=\"line" + std::string(line.dashed ? " dashed" : "") + "\" d=\"" + path +
             "\"><title>" + base::escape_html(labels[r] + ", " + line.label) + "</title></path>" +
             marks_of(runs[r], line, seconds, r, x, y);
    }
    out += "</g>";
  }
  return out + "</svg>";
}

}  // namespace stiefel::report
