#pragma once

#include <string>
#include <vector>

#include "report/run_folder.h"

namespace stiefel::report {

/// A quantity that a chart draws for every run, in the style of its own: solid or dashed.
struct Line {
  std::string key;    // in metrics.jsonl
  std::string label;  // in the legend
  bool dashed;
  Metric value;
};

/// One chart: what is drawn, how it is called, whether its axis starts logarithmic.
struct Chart {
  std::string id;
  std::string title;
  std::string note;
  std::string format;  // how page.js writes its values: loss, percent or small
  bool log;
  bool steps;               // the value held for the whole epoch, and jumped where that began
  std::vector<Line> lines;  // only those that some run has
};

/// The charts that these runs have values for.
std::vector<Chart> charts_of(const std::vector<RunFolder>& runs);

/// A mark centered at (x, y) as an SVG element. Run number r is drawn in color r mod base::kChartColors of
/// page.css, and those that share a color are told apart by their marks: none, a disc, a square or a triangle
/// for the first, second, third and fourth eight runs.
std::string svg_mark(size_t run, double x, double y);

/// The chart as plain SVG, for print and where scripts do not run. `seconds`: over the training time,
/// otherwise over the epochs.
std::string svg_chart(const Chart& chart, const std::vector<RunFolder>& runs,
                      const std::vector<std::string>& labels, bool seconds);

}  // namespace stiefel::report
