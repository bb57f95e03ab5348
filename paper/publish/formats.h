#pragma once

#include <string>
#include <vector>

#include "paper/experiment.h"

namespace stiefel::paper {

/// Results beside the paper's. "table" is for a terminal, "md" for a document; "csv" has a line per cell, or
/// per epoch where the experiment is a figure; "json" has everything, the runs' provenance and curves
/// included. Each says which scale it was and what that means.
std::string format_results(const Results& results, const Verdict& verdict, const std::string& format);

/// A cell's texts as the tables show them; what it does not have is empty.
struct CellText {
  std::string ours;
  std::string papers;
  std::string difference;
  std::string passes;
  std::string remark;
};
CellText cell_text(const CellResult& result);

/// A number as a cell shows it.
std::string format_value(double value, Style style);

}  // namespace stiefel::paper
