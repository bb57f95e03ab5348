#include "report/charts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stiefel::report {

namespace {

bool has(const std::vector<RunFolder>& runs, Metric value) {
  return std::any_of(runs.begin(), runs.end(), [&](const auto& run) {
    return std::any_of(run.epochs.begin(), run.epochs.end(),
                       [&](const auto& epoch) { return std::isfinite(value(epoch)); });
  });
}

/// On a linear axis the end of training could not be told from zero.
bool spans_decades(const std::vector<RunFolder>& runs, const std::vector<Line>& lines) {
  double least = std::numeric_limits<double>::infinity();
  double greatest = 0;
  for (const auto& run : runs) {
    for (const auto& epoch : run.epochs) {
      for (const auto& line : lines) {
        const double value = line.value(epoch);
        if (!(value > 0)) continue;
        least = std::min(least, value);
        greatest = std::max(greatest, value);
      }
    }
  }
  return greatest > 50 * least;
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<RunFolder>& runs) {
  std::vector<Chart> charts = {
      {"loss",
       "Loss",
       "",
       "loss",
       false,
       false,
       {{"test_loss", "test", false, metric<&Epoch::test_loss>},
        {"train_loss", "train", true, metric<&Epoch::train_loss>}}},
      {"error",
       "Error",
       "per cent",
       "percent",
       false,
       false,
       {{"test_error", "test", false, metric<&Epoch::test_error>},
        {"train_error", "train", true, metric<&Epoch::train_error>}}},
      {"defect",
       "Orthonormality defect",
       "‖XᵀX − I‖",
       "small",
       true,
       false,
       {{"defect_max", "largest", false, metric<&Epoch::defect_max>},
        {"defect_mean", "mean", true, metric<&Epoch::defect_mean>}}},
      {"rates",
       "Learning rates",
       "",
       "loss",
       true,
       true,
       {{"rate_manifold", "orthonormal weights", false, metric<&Epoch::rate_manifold>},
        {"rate_euclidean", "other parameters", true, metric<&Epoch::rate_euclidean>}}},
  };
  for (auto& chart : charts) {
    auto& lines = chart.lines;
    lines.erase(
        std::remove_if(lines.begin(), lines.end(), [&](const auto& line) { return !has(runs, line.value); }),
        lines.end());
    chart.log = chart.log || spans_decades(runs, lines);
  }
  charts.erase(std::remove_if(charts.begin(), charts.end(), [](const auto& c) { return c.lines.empty(); }),
               charts.end());
  return charts;
}

}  // namespace stiefel::report
