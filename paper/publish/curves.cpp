#include "curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text_layout.h"
#include "chart.h"
#include "paper/jobs/results.h"

namespace stiefel::paper {

namespace {

constexpr double kCurvesWidth = 860;
constexpr base::Box kLoss{70, 76, 420, 350};
constexpr base::Box kError{500, 76, 840, 350};
constexpr double kCharacter = 7;  // of text, generously

Plot plot_of(const Results& results, const std::string& column, double record::EpochMetrics::*value,
             const std::string& title) {
  Plot plot{"epoch", title, {}};
  for (const auto& result : results.cells) {
    if (result.cell.column != column) continue;
    for (const auto& one : result.measured) {
      Curve curve{result.cell.row, {}};
      for (const auto& epoch : one.history)
        curve.points.push_back({static_cast<double>(epoch.epoch), epoch.*value});
      plot.curves.push_back(std::move(curve));
    }
  }
  return plot;
}

}  // namespace

std::string draw_curves(const Results& results, const std::string& column, const std::string& data) {
  const auto loss = plot_of(results, column, &record::EpochMetrics::train_loss, "training loss");
  const auto error = plot_of(results, column, &record::EpochMetrics::test_error, "test error, %");
  const auto drawn = [](const Curve& curve) {
    return std::any_of(curve.points.begin(), curve.points.end(),
                       [](const base::Point& point) { return drawable(point.y); });
  };
  if (std::none_of(loss.curves.begin(), loss.curves.end(), drawn)) return "";

  Drawing drawing(kCurvesWidth, results.experiment->rows());
  drawing.text(20, 26, "font-size=\"15\" font-weight=\"bold\"", fmt::format("{} on {}", column, data));
  double x = 20;
  for (const auto& method : results.experiment->rows()) {
    const auto* result = results.find(method, column);
    if (!result || result->measured.empty()) continue;
    drawing.key(x, 52, method);
    x += 60 + kCharacter * static_cast<double>(base::text_width(method));
  }
  if (const auto note = mark_of(results); !note.empty())
    drawing.text(kCurvesWidth - 20, 26, "text-anchor=\"end\" class=\"mark-of-scale\" fill=\"#b00\"", note);
  drawing.plot(loss, kLoss);
  drawing.plot(error, kError);
  return drawing.finish(kLoss.bottom + 54);
}

}  // namespace stiefel::paper
