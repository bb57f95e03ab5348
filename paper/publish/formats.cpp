#include "formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text_layout.h"
#include "paper/jobs/results.h"

namespace stiefel::paper {

namespace {

using nlohmann::json;
using Grid = std::vector<std::vector<std::string>>;

std::string ours(const CellResult& result) {
  const auto mean = result.mean();
  if (!mean) return "";
  auto text = format_value(*mean, result.cell.style);
  if (const auto deviation = result.deviation()) text += " ± " + format_value(*deviation, result.cell.style);
  const auto have = static_cast<int64_t>(result.measured.size());
  if (have < result.wanted) text += fmt::format(" ({} of {})", have, result.wanted);
  return text;
}

std::string papers(const CellResult& result) {
  std::string text;
  for (const auto& printed : result.cell.printed) {
    text += (text.empty() ? "" : ", ") + format_value(printed.value, result.cell.style);
    if (!printed.where.empty()) text += " in " + printed.where;
  }
  return text;
}

std::string difference(const CellResult& result) {
  const auto value = result.difference();
  if (!value || !std::isfinite(*value)) return "";
  const auto text = format_value(*value, result.cell.style);
  return *value >= 0 ? "+" + text : text;
}

std::string passes(const CellResult& result) { return result.passes ? (*result.passes ? "yes" : "no") : ""; }

std::string remark(const CellResult& result) { return result.remark; }

/// The rows and columns as text: for each row a line of ours, the paper's and the difference, and what else
/// some cell has.
Grid grid_of(const Results& results) {
  const auto columns = results.columns();
  Grid grid{{results.experiment->subject, ""}};
  grid[0].insert(grid[0].end(), columns.begin(), columns.end());
  const std::pair<const char*, std::string (*)(const CellResult&)> lines[] = {
      {"ours", ours}, {"the paper's", papers}, {"difference", difference}, {"passes", passes}, {"", remark}};
  for (const auto& row : results.rows()) {
    bool first = true;
    for (const auto& [name, text] : lines) {
      const auto any = [text = text](const CellResult& result) { return !text(result).empty(); };
      const bool always =
          text == ours || (text == papers && results.experiment->axis == Experiment::Axis::kNone);
      if (!always && std::none_of(results.cells.begin(), results.cells.end(), any)) continue;
      std::vector<std::string> line{first ? row : "", name};
      for (const auto& column : columns) {
        const auto* result = results.find(row, column);
        line.push_back(result ? text(*result) : "");
      }
      grid.push_back(std::move(line));
      first = false;
    }
  }
  return grid;
}

/// The lines under a table: the claim, when it holds, whether it does, and the note.
std::vector<std::pair<std::string, std::string>> footnotes(const Results& results, const Verdict& verdict) {
  const auto& experiment = *results.experiment;
  return {{"The paper", experiment.claim},
          {"Borne out when", experiment.test},
          {"Here", to_string(verdict)},
          {"Note", experiment.note}};
}

std::string as_table(const Results& results, const Verdict& verdict) {
  const auto grid = grid_of(results);
  std::vector<size_t> widths(grid[0].size(), 0);
  for (const auto& line : grid) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], base::text_width(line[i]));
  }
  auto text = fmt::format("{}: {}\n", results.experiment->name, results.experiment->title);
  if (const auto note = mark_of(results); !note.empty()) text += note + "\n";
  text += "\n";
  for (const auto& line : grid) {
    std::string out;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - base::text_width(line[i]), ' ');
      out += (i == 0 ? "" : "  ") + (i < 2 ? line[i] + padding : padding + line[i]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  }
  text += "\n";
  for (const auto& [name, what] : footnotes(results, verdict)) text += fmt::format("{}: {}\n", name, what);
  return text;
}

std::string as_markdown(const Results& results, const Verdict& verdict) {
  const auto grid = grid_of(results);
  auto text = fmt::format("## {}: {}\n\n", results.experiment->name, results.experiment->title);
  if (const auto note = mark_of(results); !note.empty()) text += "**" + note + "**\n\n";
  for (size_t i = 0; i < grid.size(); ++i) {
    text += "|";
    for (const auto& cell : grid[i]) text += " " + cell + " |";
    text += "\n";
    if (i == 0) {
      text += "|---|---|";
      for (size_t k = 2; k < grid[0].size(); ++k) text += "---:|";
      text += "\n";
    }
  }
  text += "\n";
  for (const auto& [name, what] : footnotes(results, verdict))
    text += fmt::format("- **{}:** {}\n", name, what);
  return text;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string inner;
  for (const char c : text) inner += c == '"' ? std::string("\"\"") : std::string(1, c);
  return '"' + inner + '"';
}

std::string plain(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

std::string as_csv(const Results& results) {
  const auto scale = to_string(results.scale);
  const auto note = csv_field(mark_of(results));
  std::string text;
  if (results.experiment->axis != Experiment::Axis::kNone) {
    text = "method,data,seed,epoch,seconds,train_loss,scale,mark\n";
    for (const auto& result : results.cells) {
      for (const auto& one : result.measured) {
        for (const auto& epoch : one.history) {
          text += fmt::format("{},{},{},{},{},{},{},{}\n", result.cell.row, result.cell.column, one.seed,
                              epoch.epoch, epoch.seconds, epoch.train_loss, scale, note);
        }
      }
    }
    return text;
  }
  text =
      "row,column,runs,mean,deviation,paper,paper_elsewhere,difference,passes,remark,scale,epochs,"
      "paper_epochs,mark\n";
  for (const auto& result : results.cells) {
    const auto& printed = result.cell.printed;
    std::optional<double> paper;
    std::string elsewhere;
    if (!printed.empty()) paper = printed.front().value;
    for (size_t i = 1; i < printed.size(); ++i)
      elsewhere += fmt::format("{}{} in {}", i > 1 ? "; " : "", printed[i].value, printed[i].where);
    const auto epochs = epoch_count(result.cell, results.scale);
    const auto count = [](int64_t value) { return value > 0 ? fmt::format("{}", value) : std::string(); };
    const std::vector<std::string> fields{csv_field(result.cell.row),
                                          csv_field(result.cell.column),
                                          fmt::format("{}", result.measured.size()),
                                          plain(result.mean()),
                                          plain(result.deviation()),
                                          plain(paper),
                                          csv_field(elsewhere),
                                          plain(result.difference()),
                                          passes(result),
                                          csv_field(result.remark),
                                          scale,
                                          count(epochs.here),
                                          count(epochs.full),
                                          note};
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json();
}

std::string as_json(const Results& results, const Verdict& verdict) {
  const auto& experiment = *results.experiment;
  json cells = json::array();
  for (const auto& result : results.cells) {
    json printed = json::array();
    for (const auto& one : result.cell.printed)
      printed.push_back({{"value", one.value}, {"where", one.where.empty() ? experiment.name : one.where}});
    json runs = json::array();
    for (const auto& one : result.measured) {
      json run{{"seed", one.seed}, {"value", number(one.value)}, {"provenance", one.origin}};
      if (experiment.axis != Experiment::Axis::kNone) {
        for (const auto& epoch : one.history) {
          run["curve"].push_back(
              {{"epoch", epoch.epoch}, {"seconds", epoch.seconds}, {"train_loss", number(epoch.train_loss)}});
        }
      }
      runs.push_back(std::move(run));
    }
    const auto epochs = epoch_count(result.cell, results.scale);
    json cell{{"row", result.cell.row},
              {"column", result.cell.column},
              {"mean", number(result.mean())},
              {"deviation", number(result.deviation())},
              {"paper", printed},
              {"difference", number(result.difference())},
              {"runs", runs},
              {"runs_wanted", result.wanted}};
    if (epochs.full > 0) {
      cell["epochs"] = epochs.here;
      cell["paper_epochs"] = epochs.full;
    }
    if (result.passes) cell["passes"] = *result.passes;
    if (!result.remark.empty()) cell["remark"] = result.remark;
    cells.push_back(std::move(cell));
  }
  const json all{{"experiment", experiment.name},
                 {"title", experiment.title},
                 {"scale", to_string(results.scale)},
                 {"mark", mark_of(results)},
                 {"claim", experiment.claim},
                 {"test", experiment.test},
                 {"verdict", to_string(verdict.kind)},
                 {"why", verdict.why},
                 {"note", experiment.note},
                 {"cells", cells}};
  // A command may hold bytes that are no UTF-8.
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

const std::vector<std::string>& result_formats() {
  static const std::vector<std::string> all{"table", "md", "csv", "json"};
  return all;
}

std::string format_value(double value, Style style) {
  if (!std::isfinite(value)) return "not finite";
  switch (style) {
    case Style::kPercent:
      return fmt::format("{:.2f}", value);
    case Style::kTime:
      return std::abs(value) >= 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.3g}", value);
    case Style::kSmall:
      return fmt::format("{:.3e}", value);
    case Style::kLoss:
      return fmt::format("{:.4g}", value);
    case Style::kSlope:
      break;
  }
  return fmt::format("{:.3f}", value);
}

CellText cell_text(const CellResult& result) {
  return {ours(result), papers(result), difference(result), passes(result), result.remark};
}

std::string format_results(const Results& results, const Verdict& verdict, const std::string& format) {
  if (format == "md") return as_markdown(results, verdict);
  if (format == "csv") return as_csv(results);
  if (format == "json") return as_json(results, verdict);
  return as_table(results, verdict);
}

}  // namespace stiefel::paper
