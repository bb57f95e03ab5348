#include "formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/csv.h"
#include "base/json.h"
#include "base/markdown.h"
#include "base/output_format.h"
#include "base/table.h"
#include "paper/jobs/results.h"

namespace stiefel::paper {

namespace {

using nlohmann::json;

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
base::Table table_of(const Results& results) {
  const auto columns = results.columns();
  base::Table::Row header{results.experiment->subject, ""};
  header.insert(header.end(), columns.begin(), columns.end());
  base::Table table(std::move(header), "llr");
  const std::pair<const char*, std::string (*)(const CellResult&)> lines[] = {
      {"ours", ours}, {"the paper's", papers}, {"difference", difference}, {"passes", passes}, {"", remark}};
  for (const auto& row : results.rows()) {
    bool first = true;
    for (const auto& [name, text] : lines) {
      const auto any = [text = text](const CellResult& result) { return !text(result).empty(); };
      const bool always =
          text == ours || (text == papers && results.experiment->axis == Experiment::Axis::kNone);
      if (!always && std::none_of(results.cells.begin(), results.cells.end(), any)) continue;
      base::Table::Row line{first ? row : "", name};
      for (const auto& column : columns) {
        const auto* result = results.find(row, column);
        line.push_back(result ? text(*result) : "");
      }
      table.add(std::move(line));
      first = false;
    }
  }
  return table;
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
  auto text = fmt::format("{}: {}\n", results.experiment->name, results.experiment->title);
  if (const auto note = mark_of(results); !note.empty()) text += note + "\n";
  text += "\n" + table_of(results).text() + "\n";
  for (const auto& [name, what] : footnotes(results, verdict)) text += fmt::format("{}: {}\n", name, what);
  return text;
}

std::string as_markdown(const Results& results, const Verdict& verdict) {
  auto text = fmt::format("## {}: {}\n\n", results.experiment->name, results.experiment->title);
  if (const auto note = mark_of(results); !note.empty()) text += "**" + note + "**\n\n";
  text += base::to_markdown(table_of(results)) + "\n";
  for (const auto& [name, what] : footnotes(results, verdict))
    text += fmt::format("- **{}:** {}\n", name, what);
  return text;
}

std::string plain(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

std::string plain(int64_t count) { return count > 0 ? fmt::format("{}", count) : ""; }

/// A row per epoch of a figure's curves.
base::Table curve_rows(const Results& results) {
  base::Table table({"method", "data", "seed", "epoch", "seconds", "train_loss", "scale", "mark"});
  for (const auto& result : results.cells) {
    for (const auto& one : result.measured) {
      for (const auto& epoch : one.history) {
        table.add({result.cell.row, result.cell.column, fmt::format("{}", one.seed),
                   fmt::format("{}", epoch.epoch), fmt::format("{}", epoch.seconds),
                   fmt::format("{}", epoch.train_loss), to_string(results.scale), mark_of(results)});
      }
    }
  }
  return table;
}

/// A row per cell of a table.
base::Table cell_rows(const Results& results) {
  base::Table table({"row", "column", "runs", "mean", "deviation", "paper", "paper_elsewhere", "difference",
                     "passes", "remark", "scale", "epochs", "paper_epochs", "mark"});
  for (const auto& result : results.cells) {
    const auto& printed = result.cell.printed;
    std::optional<double> paper;
    std::string elsewhere;
    if (!printed.empty()) paper = printed.front().value;
    for (size_t i = 1; i < printed.size(); ++i)
      elsewhere += fmt::format("{}{} in {}", i > 1 ? "; " : "", printed[i].value, printed[i].where);
    const auto epochs = epoch_count(result.cell, results.scale);
    table.add({result.cell.row, result.cell.column, fmt::format("{}", result.measured.size()),
               plain(result.mean()), plain(result.deviation()), plain(paper), elsewhere,
               plain(result.difference()), passes(result), result.remark, to_string(results.scale),
               plain(epochs.here), plain(epochs.full), mark_of(results)});
  }
  return table;
}

std::string as_csv(const Results& results) {
  const bool figure = results.experiment->axis != Experiment::Axis::kNone;
  return base::to_csv(figure ? curve_rows(results) : cell_rows(results));
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
  return base::dump_json(all);
}

}  // namespace

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
  switch (base::from_name(base::kOutputFormats, format, "--format")) {
    case base::OutputFormat::kMarkdown:
      return as_markdown(results, verdict);
    case base::OutputFormat::kCsv:
      return as_csv(results);
    case base::OutputFormat::kJson:
      return as_json(results, verdict);
    case base::OutputFormat::kTable:
      break;
  }
  return as_table(results, verdict);
}

}  // namespace stiefel::paper
