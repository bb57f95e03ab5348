#include "figure_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "results.h"

namespace stiefel::paper {

namespace {

constexpr double kWidth = 760;
constexpr double kLeft = 70;
constexpr double kRight = 600;
constexpr double kTop = 64;
constexpr double kBottom = 380;
constexpr size_t kLineLength = 112;  // characters that fit under the figure

const char* const kColours[] = {"#4477aa", "#ee6677", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#888888"};
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

std::vector<std::string> wrapped(const std::string& text) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.back().size() + word.size() > kLineLength) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

struct Point {
  double x;
  double y;
};

struct Curve {
  std::string method;
  std::vector<Point> points;
};

std::vector<Curve> curves_of(const Results& results, const std::string& panel) {
  std::vector<Curve> curves;
  for (const auto& result : results.cells) {
    if (result.cell.column != panel) continue;
    for (const auto& one : result.measured) {
      Curve curve{result.cell.row, {}};
      for (const auto& epoch : one.history) {
        // A logarithm has no place for the rest.
        if (!std::isfinite(epoch.train_loss) || epoch.train_loss <= 0) continue;
        const bool seconds = results.experiment->axis == Experiment::Axis::kSeconds;
        curve.points.push_back(
            {seconds ? epoch.seconds : static_cast<double>(epoch.epoch), epoch.train_loss});
      }
      if (!curve.points.empty()) curves.push_back(std::move(curve));
    }
  }
  return curves;
}

/// 1, 2 or 5 times a power of ten, so that about six of them fill the axis.
double nice_step(double range) {
  const double rough = range / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::string draw_panel(const Results& results, const Verdict& verdict, const std::string& panel) {
  const auto curves = curves_of(results, panel);
  if (curves.empty()) return "";
  const auto& experiment = *results.experiment;
  double most_x = 0;
  double least = curves[0].points[0].y;
  double most = least;
  for (const auto& curve : curves) {
    for (const auto& point : curve.points) {
      most_x = std::max(most_x, point.x);
      least = std::min(least, point.y);
      most = std::max(most, point.y);
    }
  }
  const double low = std::log10(least) - 0.05;
  const double high = std::log10(most) + 0.05;
  const auto at_x = [&](double x) { return kLeft + (kRight - kLeft) * x / most_x; };
  const auto at_y = [&](double y) {
    return kBottom - (kBottom - kTop) * (std::log10(y) - low) / (high - low);
  };

  std::vector<std::string> under;
  for (const auto& text :
       {"The paper: " + experiment.claim, "Borne out when: " + experiment.test,
        "Here: " + to_string(verdict.kind) + (verdict.why.empty() ? "" : ", " + verdict.why)}) {
    const auto lines = wrapped(text);
    under.insert(under.end(), lines.begin(), lines.end());
  }
  const double height = kBottom + 62 + 16 * static_cast<double>(under.size());

  auto svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kWidth, height);
  const auto text = [&](double x, double y, const char* attributes, const std::string& what) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escaped(what));
  };
  text(kLeft, 24, "font-size=\"15\" font-weight=\"bold\"",
       fmt::format("{}: {}, {}", experiment.name, experiment.title, panel));
  if (const auto note = mark_of(results); !note.empty()) text(kLeft, 44, "fill=\"#b00\"", note);

  // The grid: decades, and their halves and fifths where there are few decades.
  for (int decade = static_cast<int>(std::floor(low)); decade <= static_cast<int>(std::ceil(high));
       ++decade) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && high - low > 2.5) continue;
      const double value = factor * std::pow(10, decade);
      if (std::log10(value) < low || std::log10(value) > high) continue;
      svg += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ddd\"/>\n", kLeft, at_y(value), kRight);
      text(kLeft - 6, at_y(value) + 4, "text-anchor=\"end\"", fmt::format("{:g}", value));
    }
  }
  const double step = nice_step(most_x);
  for (double x = 0; x <= most_x * 1.0001; x += step) {
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#333\"/>\n", at_x(x), kBottom);
    text(at_x(x), kBottom + 18, "text-anchor=\"middle\"", fmt::format("{:g}", x));
  }
  svg += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" stroke=\"#333\"/>\n", kLeft,
                     kTop, kBottom, kRight);
  text((kLeft + kRight) / 2, kBottom + 38, "text-anchor=\"middle\"",
       experiment.axis == Experiment::Axis::kSeconds ? "training time, s" : "epoch");
  text(0, 0,
       fmt::format("text-anchor=\"middle\" transform=\"translate(18 {:.1f}) rotate(-90)\"",
                   (kTop + kBottom) / 2)
           .c_str(),
       "training loss");

  // One colour a method; the eighth and later ones are dashed besides.
  std::vector<std::string> methods;
  for (const auto& curve : curves) {
    if (std::find(methods.begin(), methods.end(), curve.method) == methods.end())
      methods.push_back(curve.method);
  }
  const auto stroke = [&](const std::string& method) {
    const auto index =
        static_cast<size_t>(std::find(methods.begin(), methods.end(), method) - methods.begin());
    return fmt::format("stroke=\"{}\" stroke-width=\"1.6\" fill=\"none\"{}", kColours[index % kColourCount],
                       index >= kColourCount ? " stroke-dasharray=\"5 3\"" : "");
  };
  for (const auto& curve : curves) {
    std::string path;
    for (const auto& point : curve.points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at_x(point.x), at_y(point.y));
    // A single epoch is a short line, or it would not be seen.
    if (curve.points.size() == 1) path += "h-8";
    svg += fmt::format("<path d=\"{}\" {}/>\n", path, stroke(curve.method));
  }
  double y = kTop + 10;
  for (const auto& method : methods) {
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}h24\" {}/>\n", kRight + 16, y, stroke(method));
    text(kRight + 46, y + 4, "", method);
    y += 20;
  }
  y = kBottom + 64;
  for (const auto& line : under) {
    text(kLeft - 50, y, "fill=\"#444\"", line);
    y += 16;
  }
  return svg + "</svg>\n";
}

}  // namespace stiefel::paper
