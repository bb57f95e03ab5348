#include "chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stiefel::paper {

namespace {

constexpr double kPixelsPerTick = 80;  // across

/// The axes over everything that the curves have.
std::pair<base::Axis, base::Axis> axes_of(const Plot& plot, const base::Box& box) {
  base::Axis x(box.left, box.right, base::Axis::Scale::kLinear);
  base::Axis y(box.bottom, box.top, base::Axis::Scale::kLog);
  x.include(0);
  for (const auto& curve : plot.curves) {
    for (const auto& point : curve.points) {
      if (!drawable(point.y)) continue;
      x.include(point.x);
      // A twentieth of a decade to spare at both ends.
      y.include(point.y * std::pow(10, 0.05));
      y.include(point.y * std::pow(10, -0.05));
    }
  }
  x.settle(0);
  y.settle(0);
  return {x, y};
}

}  // namespace

bool drawable(double value) { return std::isfinite(value) && value > 0; }

Drawing::Drawing(double width, std::vector<std::string> names) : width_(width), names_(std::move(names)) {}

/// The ninth and later names are dashed besides.
std::string Drawing::stroke(const std::string& name) const {
  const auto index = static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  return fmt::format(
      "class=\"curve c{}\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\" fill=\"none\"{}",
      index % base::kChartColors, base::chart_color(index),
      index >= base::kChartColors ? " stroke-dasharray=\"5 3\"" : "");
}

void Drawing::text(double x, double y, const std::string& attributes, const std::string& what) {
  body_ += base::svg_text(x, y, attributes, what);
}

void Drawing::plot(const Plot& plot, const base::Box& box) {
  const auto has_points = [](const Curve& curve) {
    return std::any_of(curve.points.begin(), curve.points.end(),
                       [](const base::Point& point) { return drawable(point.y); });
  };
  if (std::none_of(plot.curves.begin(), plot.curves.end(), has_points)) return;
  const auto [x, y] = axes_of(plot, box);
  const auto x_ticks = x.ticks((box.right - box.left) / kPixelsPerTick);
  body_ += base::svg_grid(box, x, x_ticks, y, y.ticks(10));
  body_ += base::svg_frame(box, x, x_ticks, plot.across, plot.upward);
  for (const auto& curve : plot.curves) {
    const auto path = base::svg_line(curve.points, x, y);
    if (!path.empty()) body_ += fmt::format("<path d=\"{}\" {}/>\n", path, stroke(curve.name));
  }
}

void Drawing::key(double x, double y, const std::string& name) {
  body_ += fmt::format("<path d=\"M{} {}h24\" {}/>\n", base::svg_coordinate(x), base::svg_coordinate(y - 4),
                       stroke(name));
  text(x + 30, y, "", name);
}

std::string Drawing::finish(double height) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect class=\"ground\" width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#fff\"/>\n",
             width_, height) +
         body_ + "</svg>\n";
}

}  // namespace stiefel::paper
