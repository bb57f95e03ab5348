#include "experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/names.h"
#include "base/statistics.h"

namespace stiefel::paper {

namespace {

const Cell& cell_of(const Cell& cell) { return cell; }
const Cell& cell_of(const CellResult& result) { return result.cell; }

template <class Cells>
std::vector<std::string> distinct(const Cells& cells, std::string Cell::*name) {
  std::vector<std::string> names;
  for (const auto& one : cells) {
    const auto& text = cell_of(one).*name;
    if (std::find(names.begin(), names.end(), text) == names.end()) names.push_back(text);
  }
  return names;
}

std::vector<double> values_of(const CellResult& result) {
  std::vector<double> values;
  for (const auto& one : result.measured) values.push_back(one.value);
  return values;
}

}  // namespace

std::optional<double> CellResult::mean() const {
  if (measured.empty()) return std::nullopt;
  return base::mean(values_of(*this));
}

std::optional<double> CellResult::deviation() const { return base::deviation(values_of(*this)); }

std::optional<double> CellResult::difference() const {
  const auto ours = mean();
  if (!ours || cell.printed.empty()) return std::nullopt;
  return *ours - cell.printed.front().value;
}

std::string to_string(Verdict::Kind kind) {
  constexpr base::Names<Verdict::Kind, 3> kVerdictNames{{{Verdict::Kind::kBorneOut, "borne out"},
                                                         {Verdict::Kind::kNotBorneOut, "not borne out"},
                                                         {Verdict::Kind::kOpen, "open"}}};
  return base::name_of(kVerdictNames, kind);
}

std::string to_string(const Verdict& verdict) {
  return to_string(verdict.kind) + (verdict.why.empty() ? "" : ": " + verdict.why);
}

double or_worst(double value) {
  return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
}

Verdict diverged(const std::string& ours) {
  return {Verdict::Kind::kNotBorneOut, fmt::format("{} diverged", ours)};
}

std::vector<std::string> Results::rows() const { return distinct(cells, &Cell::row); }
std::vector<std::string> Results::columns() const { return distinct(cells, &Cell::column); }

const CellResult* Results::find(const std::string& row, const std::string& column) const {
  for (const auto& result : cells) {
    if (result.cell.row == row && result.cell.column == column) return &result;
  }
  return nullptr;
}

std::optional<double> Results::mean(const std::string& row, const std::string& column) const {
  const auto* found = find(row, column);
  return found ? found->mean() : std::nullopt;
}

std::vector<std::string> Experiment::rows() const { return distinct(cells, &Cell::row); }
std::vector<std::string> Experiment::columns() const { return distinct(cells, &Cell::column); }

std::vector<Cell> choose_cells(const Experiment& experiment, const std::string& only) {
  if (only.empty()) return experiment.cells;
  const auto comma = only.find(',');
  const auto row = only.substr(0, comma);
  const auto column = comma == std::string::npos ? std::string() : only.substr(comma + 1);
  const auto check = [&](const std::string& name, const std::vector<std::string>& known, const char* what) {
    if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) return;
    throw std::invalid_argument(fmt::format("--only {}: {} has no {} '{}'; it has {}", only, experiment.name,
                                            what, name, fmt::join(known, ", ")));
  };
  check(row, experiment.rows(), "row");
  check(column, experiment.columns(), "column");
  std::vector<Cell> chosen;
  for (const auto& cell : experiment.cells) {
    if ((row.empty() || cell.row == row) && (column.empty() || cell.column == column)) chosen.push_back(cell);
  }
  if (chosen.empty()) {
    throw std::invalid_argument(fmt::format("--only {}: {} has no such cell", only, experiment.name));
  }
  return chosen;
}

}  // namespace stiefel::paper
