#include <algorithm>
#include <cstddef>
#include <functional>

#include "base/escape.h"
#include "base/format_number.h"
#include "base/html.h"
#include "base/svg_chart.h"
#include "report/content.h"

// What `stiefel eval --certify` found: the certified accuracy over the radius, and a table of it.

namespace stiefel::report {

namespace {

constexpr double kWidth = 640, kHeight = 320;
constexpr base::Box kPlot{58, 10, 628, 282};
constexpr int kPoints = 160;
const std::vector<std::pair<std::string, double>> kRadii = {
    {"36/255", 36.0 / 255}, {"72/255", 72.0 / 255}, {"108/255", 108.0 / 255}};

bool is_certified(const RunFolder& run) { return !run.certified.empty(); }

/// The radius at which one in a hundred images is still certified.
double end_of(const RunFolder& run) {
  std::vector<double> radii;
  for (const auto& image : run.certified) radii.push_back(image.predicted == image.label ? image.radius : 0);
  const auto last = radii.begin() + static_cast<std::ptrdiff_t>(radii.size() / 100);
  if (last == radii.end()) return 0;
  std::nth_element(radii.begin(), last, radii.end(), std::greater<>());
  return *last;
}

std::string chart(const Content& content) {
  base::Axis x(kPlot.left, kPlot.right, base::Axis::Scale::kLinear);
  base::Axis y(kPlot.bottom, kPlot.top, base::Axis::Scale::kLinear);
  double end = 0;
  for (const auto& run : content.runs) end = std::max(end, end_of(run));
  x.include(0), x.include(end), y.include(0), y.include(100);
  x.settle(0.015), y.settle(0.03);
  std::string out = "<svg class=\"curve\" viewBox=\"0 0 " + base::svg_coordinate(kWidth) + " " +
                    base::svg_coordinate(kHeight) +
                    "\" role=\"img\" aria-label=\"Certified accuracy over the radius\"><g class=\"grid\">" +
                    base::svg_grid(kPlot, x, x.ticks(7), y, y.ticks(5)) +
                    base::svg_text(kPlot.right, kHeight - 4, "class=\"unit\" text-anchor=\"end\"",
                                   "length of the perturbation, in pixels from 0 to 1") +
                    "</g>";
  for (size_t r = 0; r < content.runs.size(); ++r) {
    const auto& images = content.runs[r].certified;
    if (images.empty()) continue;
    std::vector<base::Point> points;
    for (int i = 0; i <= kPoints; ++i) {
      const double radius = end * i / kPoints;
      points.push_back({radius, record::certified_accuracy(images, radius)});
    }
    out += "<g class=\"c" + std::to_string(r % base::kChartColors) + "\" data-run=\"" + std::to_string(r) +
           "\"><path class=\"line\" d=\"" + base::svg_line(points, x, y) + "\"><title>" +
           base::escape_html(content.labels[r]) + "</title></path>";
    for (int i = 0; i <= kPoints; i += kPoints / 8) {
      const auto& point = points[static_cast<size_t>(i)];
      out += svg_mark(r, x(point.x), y(point.y));
    }
    out += "</g>";
  }
  return out + "</svg>";
}

}  // namespace

std::string certified_section(const Content& content) {
  if (std::none_of(content.runs.begin(), content.runs.end(), is_certified)) return "";
  base::HtmlTable table{"Certified accuracy", "results"};
  table.add_column("Run");
  table.add_column("Images", base::Align::kRight);
  table.add_column("Clean", base::Align::kRight, "right predictions");
  for (const auto& [name, radius] : kRadii) {
    table.add_column(name, base::Align::kRight,
                     "right predictions that no perturbation up to this length changes");
  }
  const auto number = [](double value, std::string (*format)(double) = base::format_percent) {
    return "<td class=\"number\" data-value=\"" + std::to_string(value) + "\">" + format(value) + "</td>";
  };
  for (size_t i = 0; i < content.runs.size(); ++i) {
    const auto& images = content.runs[i].certified;
    if (images.empty()) continue;
    table.rows.push_back({"<th scope=\"row\">" + run_name(content, i) + "</th>",
                          number(static_cast<double>(images.size()), base::format_count),
                          number(record::clean_accuracy(images))});
    for (const auto& [name, radius] : kRadii)
      table.rows.back().push_back(number(record::certified_accuracy(images, radius)));
  }
  return section(
      "certified", "Certified accuracy",
      "<figure id=\"chart-certified\">\n<figcaption><h3>Certified accuracy</h3>"
      "<span class=\"note\">per cent of the test images</span></figcaption>\n<div class=\"plot\">" +
          chart(content) + "</div>\n</figure>\n" + table.html() +
          "<p class=\"hint\">As the last <code>stiefel eval --certify</code> of each run found it.</p>\n");
}

}  // namespace stiefel::report
