#include "svg_chart.h"

#include <cstdio>

#include "escape.h"

namespace stiefel::base {

const char* chart_color(size_t index) {
  static const char* const colors[kChartColors] = {"#004ca9", "#e67a0c", "#26b277", "#83668d",
                                                   "#a26126", "#6b82fa", "#502964", "#7c0e20"};
  return colors[index % kChartColors];
}

std::string svg_coordinate(double value) {
  char text[32];
  // The nudge sends ties the same way on every machine, whatever the last bit of a logarithm is there.
  std::snprintf(text, sizeof text, "%.1f", value + 1e-7);
  return text;
}

std::string svg_text(double x, double y, const std::string& attributes, const std::string& text) {
  return "<text x=\"" + svg_coordinate(x) + "\" y=\"" + svg_coordinate(y) + "\"" +
         (attributes.empty() ? "" : " " + attributes) + ">" + escape_html(text) + "</text>\n";
}

std::string svg_grid(const Box& box, const Axis& x, const std::vector<double>& x_ticks, const Axis& y,
                     const std::vector<double>& y_ticks) {
  std::string out;
  for (const double value : y_ticks) {
    out += "<path class=\"grid-line\" d=\"M" + svg_coordinate(box.left) + " " + svg_coordinate(y(value)) +
           "H" + svg_coordinate(box.right) + "\" stroke=\"#ddd\"/>\n" +
           svg_text(box.left - 7, y(value), "dy=\".35em\" text-anchor=\"end\"", tick_label(value));
  }
  for (const double value : x_ticks)
    out += svg_text(x(value), box.bottom + 18, "text-anchor=\"middle\"", tick_label(value));
  return out;
}

std::string svg_frame(const Box& box, const Axis& x, const std::vector<double>& x_ticks,
                      const std::string& across, const std::string& upward) {
  const std::string left = svg_coordinate(box.left), bottom = svg_coordinate(box.bottom);
  std::string out = "<path class=\"axis\" d=\"M" + left + " " + svg_coordinate(box.top) + "V" + bottom + "H" +
                    svg_coordinate(box.right);
  for (const double value : x_ticks) out += "M" + svg_coordinate(x(value)) + " " + bottom + "v5";
  out += "\" fill=\"none\" stroke=\"#333\"/>\n";
  const std::string turned = "translate(" + svg_coordinate(box.left - 50) + " " +
                             svg_coordinate((box.top + box.bottom) / 2) + ") rotate(-90)";
  return out + svg_text((box.left + box.right) / 2, box.bottom + 38, "text-anchor=\"middle\"", across) +
         svg_text(0, 0, "text-anchor=\"middle\" transform=\"" + turned + "\"", upward);
}

std::string svg_line(const std::vector<Point>& points, const Axis& x, const Axis& y) {
  const auto shown = [&](size_t i) {
    return i < points.size() && x.shows(points[i].x) && y.shows(points[i].y);
  };
  std::string path;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!shown(i)) continue;
    const bool continues = i > 0 && shown(i - 1);
    path += (continues ? "L" : "M") + svg_coordinate(x(points[i].x)) + " " + svg_coordinate(y(points[i].y));
    if (!continues && !shown(i + 1)) path += "m-4 0h8";
  }
  return path;
}

std::string svg_steps(const std::vector<Step>& steps, const Axis& x, const Axis& y) {
  std::string path;
  bool continues = false;
  for (const auto& step : steps) {
    const bool shown = x.shows(step.from) && x.shows(step.to) && y.shows(step.y);
    if (shown) {
      path += continues ? "V" + svg_coordinate(y(step.y))
                        : "M" + svg_coordinate(x(step.from)) + " " + svg_coordinate(y(step.y));
      path += "H" + svg_coordinate(x(step.to));
    }
    continues = shown;
  }
  return path;
}

}  // namespace stiefel::base
