#include "chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace stiefel::paper {

namespace {

// The runs' colours of the report, which stay apart under the common forms of colour blindness.
const char* const kColours[] = {"#004ca9", "#e67a0c", "#26b277", "#83668d",
                                "#a26126", "#6b82fa", "#502964", "#7c0e20"};
constexpr size_t kColourCount = sizeof kColours / sizeof *kColours;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

/// A coordinate to a tenth of a pixel. The nudge sends ties the same way on every machine, whatever the last
/// bit of a logarithm is there.
std::string place(double value) { return fmt::format("{:.1f}", value + 1e-7); }

/// 1, 2 or 5 times a power of ten, so that about `wanted` of them fill the axis.
double nice_step(double range, double wanted) {
  const double rough = range / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

/// Decades, and their halves and fifths where there are few of them; more still within half a decade.
std::vector<double> log_ticks(double low, double high) {
  const std::vector<double> within = high - low > 2.5   ? std::vector<double>{1}
                                     : high - low > 0.7 ? std::vector<double>{1, 2, 5}
                                                        : std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<double> ticks;
  for (int decade = static_cast<int>(std::floor(low)); decade <= static_cast<int>(std::ceil(high));
       ++decade) {
    for (const double factor : within) {
      const double value = factor * std::pow(10, decade);
      if (std::log10(value) >= low && std::log10(value) <= high) ticks.push_back(value);
    }
  }
  return ticks;
}

}  // namespace

bool drawable(double value) { return std::isfinite(value) && value > 0; }

Drawing::Drawing(double width, std::vector<std::string> names) : width_(width), names_(std::move(names)) {}

/// The ninth and later names are dashed besides.
std::string Drawing::stroke(const std::string& name) const {
  const auto index = static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  return fmt::format(
      "class=\"curve c{}\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\" fill=\"none\"{}",
      index % kColourCount, kColours[index % kColourCount],
      index >= kColourCount ? " stroke-dasharray=\"5 3\"" : "");
}

void Drawing::text(double x, double y, const std::string& attributes, const std::string& what) {
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", place(x), place(y),
                       attributes.empty() ? "" : " ", attributes, escaped(what));
}

void Drawing::plot(const Plot& plot, const Box& box) {
  double most_x = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const auto& curve : plot.curves) {
    for (const auto& point : curve.points) {
      if (!drawable(point.y)) continue;
      most_x = std::max(most_x, point.x);
      least = std::min(least, point.y);
      most = std::max(most, point.y);
    }
  }
  if (!(most_x > 0) || !(most > 0)) return;
  const double low = std::log10(least) - 0.05;
  const double high = std::log10(most) + 0.05;
  const auto at_x = [&](double x) { return box.left + (box.right - box.left) * x / most_x; };
  const auto at_y = [&](double y) {
    return box.bottom - (box.bottom - box.top) * (std::log10(y) - low) / (high - low);
  };

  for (const double value : log_ticks(low, high)) {
    body_ += fmt::format("<path class=\"grid-line\" d=\"M{} {}H{}\" stroke=\"#ddd\"/>\n", place(box.left),
                         place(at_y(value)), place(box.right));
    text(box.left - 6, at_y(value) + 4, "text-anchor=\"end\"", fmt::format("{:g}", value));
  }
  const double step = nice_step(most_x, (box.right - box.left) / 80);
  for (int i = 0; i * step <= most_x * 1.0001; ++i) {
    body_ += fmt::format("<path class=\"axis\" d=\"M{} {}v5\" stroke=\"#333\"/>\n", place(at_x(i * step)),
                         place(box.bottom));
    text(at_x(i * step), box.bottom + 18, "text-anchor=\"middle\"", fmt::format("{:g}", i * step));
  }
  body_ += fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}\" fill=\"none\" stroke=\"#333\"/>\n",
                       place(box.left), place(box.top), place(box.bottom), place(box.right));
  text((box.left + box.right) / 2, box.bottom + 38, "text-anchor=\"middle\"", plot.across);
  text(0, 0,
       fmt::format("text-anchor=\"middle\" transform=\"translate({} {}) rotate(-90)\"", place(box.left - 50),
                   place((box.top + box.bottom) / 2)),
       plot.upward);

  for (const auto& curve : plot.curves) {
    std::string path;
    size_t drawn = 0;
    for (const auto& point : curve.points) {
      if (!drawable(point.y)) continue;
      path += fmt::format("{}{} {}", drawn++ == 0 ? "M" : "L", place(at_x(point.x)), place(at_y(point.y)));
    }
    if (drawn == 0) continue;
    // A single epoch is a short line, or it would not be seen.
    if (drawn == 1) path += "h-8";
    body_ += fmt::format("<path d=\"{}\" {}/>\n", path, stroke(curve.name));
  }
}

void Drawing::key(double x, double y, const std::string& name) {
  body_ += fmt::format("<path d=\"M{} {}h24\" {}/>\n", place(x), place(y - 4), stroke(name));
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
