#include "figure_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text_layout.h"
#include "chart.h"
#include "paper/jobs/results.h"

namespace stiefel::paper {

namespace {

constexpr double kFigureWidth = 760;
constexpr base::Box kBox{70, 64, 600, 380};
constexpr size_t kCaptionLength = 112;  // characters that fit under the figure

std::vector<Curve> curves_of(const Results& results, const std::string& panel) {
  const bool seconds = results.experiment->axis == Experiment::Axis::kSeconds;
  std::vector<Curve> curves;
  for (const auto& result : results.cells) {
    if (result.cell.column != panel) continue;
    for (const auto& one : result.measured) {
      Curve curve{result.cell.row, {}};
      for (const auto& epoch : one.history) {
        if (!drawable(epoch.train_loss)) continue;
        curve.points.push_back(
            {seconds ? epoch.seconds : static_cast<double>(epoch.epoch), epoch.train_loss});
      }
      if (!curve.points.empty()) curves.push_back(std::move(curve));
    }
  }
  return curves;
}

}  // namespace

std::string draw_panel(const Results& results, const Verdict& verdict, const std::string& panel,
                       bool with_claim) {
  const auto& experiment = *results.experiment;
  const bool seconds = experiment.axis == Experiment::Axis::kSeconds;
  const Plot plot{seconds ? "training time, s" : "epoch", "training loss", curves_of(results, panel)};
  if (plot.curves.empty()) return "";

  Drawing drawing(kFigureWidth, experiment.rows());
  drawing.text(20, 24, "font-size=\"15\" font-weight=\"bold\"",
               fmt::format("{}: {}, {}", experiment.name, experiment.title, panel));
  if (const auto note = mark_of(results); !note.empty())
    drawing.text(20, 44, "class=\"mark-of-scale\" fill=\"#b00\"", note);
  drawing.plot(plot, kBox);
  double y = kBox.top + 14;
  for (const auto& method : experiment.rows()) {
    const auto is_its = [&](const Curve& curve) { return curve.name == method; };
    if (std::none_of(plot.curves.begin(), plot.curves.end(), is_its)) continue;
    drawing.key(kBox.right + 16, y, method);
    y += 20;
  }
  y = kBox.bottom + 64;
  if (!with_claim) return drawing.finish(y - 10);
  for (const auto& text : {"The paper: " + experiment.claim, "Borne out when: " + experiment.test,
                           "Here: " + to_string(verdict)}) {
    for (const auto& line : base::wrapped(text, kCaptionLength)) {
      drawing.text(20, y, "fill=\"#444\"", line);
      y += 16;
    }
  }
  return drawing.finish(y);
}

}  // namespace stiefel::paper
