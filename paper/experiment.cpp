#include "experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "statistics.h"

namespace stiefel::paper {

namespace {

std::vector<std::string> distinct(const std::vector<Cell>& cells, std::string Cell::*name) {
  std::vector<std::string> names;
  for (const auto& cell : cells) {
    if (std::find(names.begin(), names.end(), cell.*name) == names.end()) names.push_back(cell.*name);
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
  return paper::mean(values_of(*this));
}

std::optional<double> CellResult::deviation() const { return paper::deviation(values_of(*this)); }

std::optional<double> CellResult::difference() const {
  const auto ours = mean();
  if (!ours || cell.printed.empty()) return std::nullopt;
  return *ours - cell.printed.front().value;
}

std::string to_string(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kBorneOut:
      return "borne out";
    case Verdict::Kind::kNotBorneOut:
      return "not borne out";
    case Verdict::Kind::kOpen:
      break;
  }
  return "open";
}

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
