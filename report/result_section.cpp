#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/escape.h"
#include "base/format_number.h"
#include "base/html.h"
#include "report/content.h"
#include "report/text.h"

namespace stiefel::report {

namespace {

struct ResultColumn {
  std::string title;
  std::string hint;
  double Summary::*value;
  std::string (*format)(double);
};

std::string status_cell(const std::string& status) {
  const std::string kind =
      status == "finished" || status == "interrupted" || status == "running" ? status : "unknown";
  return "<td><span class=\"status " + kind + "\">" + base::escape_html(status.empty() ? "unknown" : status) +
         "</span></td>";
}

/// Hundredths matter for a run of a few seconds only.
std::string total_time(double seconds) {
  return seconds < 60 ? base::format_seconds(seconds) : base::format_duration(seconds);
}

const std::vector<ResultColumn>& result_columns() {
  static const std::vector<ResultColumn> all = {
      {"Epochs", "", &Summary::epochs, base::format_count},
      {"Best test error",
       "at the epoch with the lowest validation error; without validation, the lowest of all epochs",
       &Summary::best_test_error, base::format_percent},
      {"Last test error", "after the last epoch", &Summary::last_test_error, base::format_percent},
      {"Last train loss", "of the last epoch", &Summary::last_train_loss, base::format_loss},
      {"Time/epoch", "the median", &Summary::epoch_seconds, base::format_seconds},
      {"Total time", "from run.json", &Summary::total_seconds, total_time},
      {"Defect max", "the largest ‖XᵀX − I‖ of all epochs", &Summary::defect_max, base::format_small},
      {"Skipped steps", "steps left out because a gradient was not finite", &Summary::skipped_steps,
       base::format_count},
  };
  return all;
}

/// Which runs are best in a column.
std::vector<bool> best_runs(const Content& content, const ResultColumn& column) {
  const auto& runs = content.runs;
  const auto by_validation = std::count_if(content.summaries.begin(), content.summaries.end(),
                                           [](const Summary& s) { return s.validation_decides; });
  const bool chosen_alike = by_validation == 0 || by_validation == static_cast<long>(runs.size());
  std::vector<double> values;
  std::vector<bool> eligible;
  for (size_t i = 0; i < runs.size(); ++i) {
    values.push_back(content.summaries[i].*column.value);
    // A run that stopped early was not quicker, and an epoch that the test set chose is not comparable with
    // one that validation chose.
    eligible.push_back(column.value != &Summary::epochs &&
                       (column.value != &Summary::total_seconds || runs[i].status == "finished") &&
                       (column.value != &Summary::best_test_error || chosen_alike));
  }
  return mark_best(runs, values, eligible);
}

std::string number_cell(const Summary& summary, const ResultColumn& column, bool best) {
  const double value = summary.*column.value;
  std::string text = column.format(value);
  if (column.value == &Summary::best_test_error && std::isfinite(value)) {
    text += "<small>epoch " + base::format_count(summary.best_epoch) +
            (summary.validation_decides ? ", by validation" : "") + "</small>";
  }
  const std::string sort = std::isfinite(value) ? " data-value=\"" + nlohmann::json(value).dump() + "\"" : "";
  return "<td class=\"number" + std::string(best ? " best" : "") + "\"" + sort + ">" +
         (best ? "<span class=\"only-heard\">best: </span>" : "") + text + "</td>";
}

}  // namespace

std::string result_section(const Content& content) {
  base::HtmlTable table{"Results", "results"};
  for (const auto* title : {"Run", "Data", "Network", "Optimiser"}) table.add_column(title);
  for (const auto& column : result_columns())
    table.add_column(column.title, base::Align::kRight, column.hint);
  table.add_column("Status");
  for (size_t i = 0; i < content.runs.size(); ++i) {
    const auto& run = content.runs[i];
    table.rows.push_back({"<th scope=\"row\">" + run_name(content, i) + "</th>",
                          base::element("td", display_name(run.data)), base::element("td", run.model),
                          base::element("td", display_name(run.optim))});
  }
  bool any_best = false;
  for (const auto& column : result_columns()) {
    const auto best = best_runs(content, column);
    for (size_t i = 0; i < best.size(); ++i) {
      any_best = any_best || best[i];
      table.rows[i].push_back(number_cell(content.summaries[i], column, best[i]));
    }
  }
  for (size_t i = 0; i < content.runs.size(); ++i)
    table.rows[i].push_back(status_cell(content.runs[i].status));
  std::string hint;
  if (any_best) {
    hint =
        "<p class=\"hint\"><span class=\"best-sample\">Marked</span> is the best of its column among the "
        "runs "
        "on the same data";
    if (content.seeds.most == 1) hint += ": one seed of each method, so no verdict on them";
    hint += ".</p>\n";
  }
  return section("results", content.single() ? "Result" : "Comparison", table.html() + hint);
}

}  // namespace stiefel::report
