#include "page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/escape.h"
#include "base/html.h"
#include "figure_svg.h"
#include "formats.h"
#include "paper/jobs/results.h"
#include "provenance_table.h"
#include "report/content.h"
#include "report/page.h"

namespace stiefel::paper {

namespace {

using base::element;

/// "table1" as Table 1.
std::string proper_name(const std::string& name) {
  const auto digit = name.find_first_of("0123456789");
  if (digit == std::string::npos || digit == 0) return name;
  auto title = name.substr(0, digit) + " " + name.substr(digit);
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return title;
}

/// Its words and its form tell the verdicts apart as well as its color.
std::string badge(const Verdict& verdict) {
  const auto words = to_string(verdict.kind);
  auto kind = words;
  std::replace(kind.begin(), kind.end(), ' ', '-');
  const char* const sign = verdict.kind == Verdict::Kind::kBorneOut      ? "✓"
                           : verdict.kind == Verdict::Kind::kNotBorneOut ? "✗"
                                                                         : "○";
  return element("span class=\"verdict " + kind + "\"", fmt::format("{} {}", sign, words));
}

std::string header(const Results& results, const Verdict& verdict) {
  const auto filled = std::count_if(results.cells.begin(), results.cells.end(),
                                    [](const CellResult& result) { return !result.measured.empty(); });
  auto html = "<p class=\"subtitle\">" + badge(verdict) +
              element("span", fmt::format("{} of {} cells filled · scale {}", filled, results.cells.size(),
                                          to_string(results.scale))) +
              "</p>\n";
  if (const auto note = mark_of(results); !note.empty())
    html += element("p class=\"scale-mark\" role=\"note\"", note) + "\n";
  return html;
}

/// Whether there is anything of the paper's to stand beside ours.
bool has_printed(const Results& results) {
  return std::any_of(results.cells.begin(), results.cells.end(),
                     [](const CellResult& result) { return !result.cell.printed.empty(); });
}

std::string cell_html(const CellResult* result) {
  if (!result) return "<td></td>";
  const auto text = cell_text(*result);
  auto html = text.ours.empty() ? std::string("<td class=\"number empty\">–")
                                : "<td class=\"number\">" + element("b", text.ours);
  if (!text.papers.empty()) html += element("small", "paper " + text.papers);
  if (!text.difference.empty()) html += element("small", text.difference);
  if (result->passes)
    html +=
        *result->passes ? "<small class=\"pass\">✓ passes</small>" : "<small class=\"fail\">✗ fails</small>";
  if (!text.remark.empty()) html += element("small", text.remark);
  return html + "</td>";
}

std::string table_html(const Results& results) {
  base::HtmlTable table{"The experiment's table", "results fixed experiment", "scroll snug"};
  table.add_column(results.experiment->subject);
  const auto columns = results.columns();
  for (const auto& column : columns) table.add_column(column, base::Align::kRight);
  for (const auto& row : results.rows()) {
    std::vector<std::string> cells{element("th scope=\"row\"", row)};
    for (const auto& column : columns) cells.push_back(cell_html(results.find(row, column)));
    table.rows.push_back(std::move(cells));
  }
  const bool printed = has_printed(results);
  return table.html() +
         element("p class=\"hint\"",
                 printed ? "Bold is ours, the mean ± the standard deviation where there are several seeds. "
                           "Under it the paper's figure and the difference, ours less the paper's. "
                           "– has not been run."
                         : "Ours, the mean ± the standard deviation where there are several seeds. "
                           "– has not been run.") +
         "\n";
}

std::string drawings(const Results& results, const Verdict& verdict) {
  std::string html;
  if (results.experiment->axis != Experiment::Axis::kNone) {
    for (const auto& panel : results.experiment->columns()) {
      const auto svg = draw_panel(results, verdict, panel, /*with_claim=*/false);
      if (!svg.empty()) html += "<figure>" + svg + "</figure>\n";
    }
  }
  return html.empty() ? "" : "<div class=\"drawings\">\n" + html + "</div>\n";
}

std::string claim(const Experiment& experiment, const Verdict& verdict) {
  auto html = "<dl class=\"claim\">\n" + element("dt", "The paper") + element("dd", experiment.claim) + "\n" +
              element("dt", "Borne out when") + element("dd", experiment.test) + "\n" +
              element("dt", "Here") + "<dd>" + badge(verdict) +
              (verdict.why.empty() ? "" : element("span", verdict.why)) + "</dd>\n";
  if (!experiment.note.empty()) html += element("dt", "Note") + element("dd", experiment.note) + "\n";
  return html + "</dl>\n";
}

/// The runs that the cells come from, each once, in the cells' order.
std::vector<RunRecord> records_of(const Results& results) {
  std::vector<RunRecord> records;
  std::vector<std::string> seen;
  for (const auto& result : results.cells) {
    for (const auto& one : result.measured) {
      const auto folder = one.origin.value("folder", std::string());
      if (folder.empty() || std::find(seen.begin(), seen.end(), folder) != seen.end()) continue;
      seen.push_back(folder);
      if (auto record = read_run_record(folder)) records.push_back(std::move(*record));
    }
  }
  return records;
}

std::string run_table(const std::vector<RunRecord>& records) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& record : records) rows.push_back(provenance_row(record));
  // Measurements have no epochs, baselines no defect: a column that no run has is left out.
  const auto& columns = provenance_columns();
  const auto shown = [&](size_t column) {
    return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return !row[column].empty(); });
  };
  base::HtmlTable table{"The runs", "results"};
  for (size_t i = 0; i < columns.size(); ++i) {
    if (shown(i))
      table.add_column(columns[i].title, columns[i].number ? base::Align::kRight : base::Align::kLeft);
  }
  for (const auto& row : rows) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < row.size(); ++i) {
      if (!shown(i)) continue;
      const auto value = row[i].empty() ? "" : fmt::format(" data-value=\"{}\"", base::escape_html(row[i]));
      cells.push_back(element(i == 0               ? "th scope=\"row\""
                              : !columns[i].number ? std::string("td")
                                                   : "td class=\"number\"" + value,
                              row[i].empty() ? "–" : row[i]));
    }
    table.rows.push_back(std::move(cells));
  }
  return table.html();
}

/// Of cells that were computed without runs: one machine, one command.
std::string computed_facts(const Results& results) {
  const Measured* first = nullptr;
  size_t numbers = 0;
  for (const auto& result : results.cells) {
    numbers += result.measured.size();
    if (!first && !result.measured.empty()) first = &result.measured.front();
  }
  if (!first) return "";
  std::string html = "<dl class=\"facts\">\n";
  const auto add = [&](const std::string& title, const nlohmann::json& value) {
    std::string text;
    if (value.is_string()) {
      text = value.get<std::string>();
    } else if (value.is_array()) {
      for (const auto& word : value)
        text += (text.empty() ? "" : " ") + (word.is_string() ? word.get<std::string>() : word.dump());
    }
    if (!text.empty()) html += "<div>" + element("dt", title) + element("dd", text) + "</div>\n";
  };
  const auto take = [&](const char* name) { return first->origin.value(name, nlohmann::json()); };
  const auto hardware = first->origin.value("hardware", nlohmann::json::object());
  add("Command", take("command"));
  add("Computed", fmt::format("{} numbers in {}", numbers,
                              take("precision").is_string() ? take("precision").get<std::string>() : "–"));
  add("Processor", hardware.value("cpu", nlohmann::json()));
  add("LibTorch", take("libtorch"));
  add("Commit", take("commit"));
  add("Date", take("date"));
  return html + "</dl>\n";
}

}  // namespace

std::string experiment_page(const Results& results, const Verdict& verdict) {
  const auto& experiment = *results.experiment;
  const auto records = records_of(results);
  std::vector<report::RunFolder> runs;
  for (const auto& record : records) {
    if (!record.epochs.empty()) runs.push_back(report::read_run_folder(record.folder));
  }
  report::Frame frame;
  frame.kind = "the paper, reproduced";
  frame.title = fmt::format("{}: {}", proper_name(experiment.name), experiment.title);
  frame.header = header(results, verdict);
  frame.above =
      report::section("experiment", has_printed(results) ? "Ours beside the paper's" : "Ours",
                      drawings(results, verdict) + table_html(results) + claim(experiment, verdict));
  const auto origin = records.empty() ? computed_facts(results) : run_table(records);
  if (!origin.empty()) frame.below = report::section("provenance", "Where the numbers come from", origin);
  frame.command = "stiefel paper " + experiment.name;
  return report::render(frame, runs);
}

}  // namespace stiefel::paper
