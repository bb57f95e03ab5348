#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/content.h"
#include "report/text.h"

namespace stiefel::report {

namespace {

struct Column {
  std::string title;
  std::string hint;
  double Summary::*value;
  std::string (*format)(double);
};

std::string status_cell(const std::string& status) {
  const std::string kind =
      status == "finished" || status == "interrupted" || status == "running" ? status : "unknown";
  return "<td><span class=\"status " + kind + "\">" + escape_html(status.empty() ? "unknown" : status) +
         "</span></td>";
}

}  // namespace

std::string result_section(const Content& content) {
  static const std::vector<Column> columns = {
      {"Epochs", "", &Summary::epochs, format_count},
      {"Best test error",
       "at the epoch with the lowest validation error; without validation, the lowest of all epochs",
       &Summary::best_test_error, format_percent},
      {"Last test error", "after the last epoch", &Summary::last_test_error, format_percent},
      {"Last train loss", "of the last epoch", &Summary::last_train_loss, format_loss},
      {"Time/epoch", "the median", &Summary::epoch_seconds, format_seconds},
      {"Total time", "from run.json", &Summary::total_seconds, format_duration},
      {"Defect max", "the largest ‖XᵀX − I‖ of all epochs", &Summary::defect_max, format_small},
      {"Skipped steps", "steps left out because a gradient was not finite", &Summary::skipped_steps,
       format_count},
  };
  const auto& runs = content.runs;
  const auto by_validation = std::count_if(content.summaries.begin(), content.summaries.end(),
                                           [](const Summary& s) { return s.validation_decides; });
  const bool chosen_alike = by_validation == 0 || by_validation == static_cast<long>(runs.size());
  std::vector<std::vector<bool>> best;
  std::string head =
      "<th scope=\"col\">Run</th><th scope=\"col\">Data</th><th scope=\"col\">Network</th>"
      "<th scope=\"col\">Optimiser</th>";
  for (const auto& column : columns) {
    head += "<th scope=\"col\" class=\"number\"" +
            (column.hint.empty() ? "" : " title=\"" + escape_html(column.hint) + "\"") + ">" +
            escape_html(column.title) + "</th>";
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
    best.push_back(mark_best(runs, values, eligible));
  }
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    body += "<tr><th scope=\"row\">" + run_name(content, i) + "</th>" +
            element("td", display_name(runs[i].data)) + element("td", runs[i].model) +
            element("td", display_name(runs[i].optim));
    for (size_t c = 0; c < columns.size(); ++c) {
      const double value = content.summaries[i].*columns[c].value;
      std::string text = columns[c].format(value);
      if (columns[c].value == &Summary::best_test_error && std::isfinite(value)) {
        text += "<small>epoch " + format_count(content.summaries[i].best_epoch) +
                (content.summaries[i].validation_decides ? ", by validation" : "") + "</small>";
      }
      const std::string sort =
          std::isfinite(value) ? " data-value=\"" + nlohmann::json(value).dump() + "\"" : "";
      body += "<td class=\"number" + std::string(best[c][i] ? " best" : "") + "\"" + sort + ">" +
              (best[c][i] ? "<span class=\"only-heard\">best: </span>" : "") + text + "</td>";
    }
    body += status_cell(runs[i].status) + "</tr>\n";
  }
  const bool any = std::any_of(best.begin(), best.end(), [](const auto& column) {
    return std::find(column.begin(), column.end(), true) != column.end();
  });
  return section("results", content.single() ? "Result" : "Comparison",
                 "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Results\">\n<table "
                 "class=\"results\">\n"
                 "<thead><tr>" +
                     head + "<th scope=\"col\">Status</th></tr></thead>\n<tbody>\n" + body +
                     "</tbody>\n</table>\n</div>\n" +
                     (any ? "<p class=\"hint\"><span class=\"best-sample\">Marked</span> is the best of its "
                            "column among "
                            "the "
                            "runs on the same data" +
                                (content.seeds.most == 1 ? ": one seed of each method, so no verdict on them"
                                                         : std::string()) +
                                ".</p>\n"
                          : ""));
}

}  // namespace stiefel::report
