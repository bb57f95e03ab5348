#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/escape.h"
#include "base/html.h"
#include "base/svg_chart.h"
#include "report/content.h"

namespace stiefel::report {

namespace {

std::string line_key(const Chart& chart) {
  std::string out = "<span class=\"key\">";
  for (const auto& line : chart.lines) {
    out += "<span><svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line" +
           std::string(line.dashed ? " dashed" : "") + "\" d=\"M2 5H24\"/></svg>" +
           base::escape_html(line.label) + "</span>";
  }
  return out + "</span>";
}

std::string figure(const Content& content, const Chart& chart) {
  std::string out =
      "<figure id=\"chart-" + chart.id + "\">\n<figcaption><h3>" + base::escape_html(chart.title) + "</h3>";
  if (!chart.note.empty()) out += base::element("span class=\"note\"", chart.note);
  out += line_key(chart) + "<label class=\"switch live\"><input type=\"checkbox\" data-log=\"" + chart.id +
         "\"" + (chart.log ? " checked" : "") +
         "><span>log axis</span></label></figcaption>\n<div class=\"plot\">";
  for (const bool seconds : {false, true}) out += svg_chart(chart, content.runs, content.labels, seconds);
  return out + "</div>\n</figure>\n";
}

}  // namespace

std::string chart_section(const Content& content) {
  if (content.charts.empty()) return "";
  std::string out =
      "<div class=\"toolbar\">\n<fieldset class=\"segments scripted\"><legend>Across</legend>"
      "<label><input type=\"radio\" name=\"across\" value=\"epoch\" checked><span>epochs</span></label>"
      "<label><input type=\"radio\" name=\"across\" "
      "value=\"seconds\"><span>seconds</span></label></fieldset>\n"
      "<ul class=\"legend\" aria-label=\"Runs\">\n";
  for (size_t i = 0; i < content.runs.size(); ++i) {
    const std::string body = run_name(content, i);
    // A single run needs no switch, only its name.
    out += content.single() ? "<li>" + body + "</li>\n"
                            : "<li><label class=\"chip\"><input type=\"checkbox\" checked data-show=\"" +
                                  std::to_string(i) + "\">" + body + "</label></li>\n";
  }
  out +=
      "</ul>\n<button type=\"button\" class=\"live\" id=\"reset\" disabled>Reset zoom</button>\n</div>\n"
      "<div class=\"charts\">\n";
  for (const auto& chart : content.charts) out += figure(content, chart);
  return section(
      "curves", "Training curves",
      out +
          "</div>\n<p class=\"hint live\">Drag to zoom, double-click to see all again, shift-drag to move. "
          "With a "
          "chart in focus the arrow keys step through the values.</p>\n");
}

std::string chart_data(const Content& content) {
  using Json = nlohmann::json;
  Json runs = Json::array();
  for (size_t i = 0; i < content.runs.size(); ++i) {
    Json run = {{"name", content.labels[i]}, {"columns", Json::object()}};
    for (const auto& metric : record::metric_columns()) {
      Json column = Json::array();
      bool any = false;
      for (const auto& epoch : content.runs[i].epochs) {
        column.push_back(metric.value(epoch));  // what is not finite becomes null
        any = any || std::isfinite(metric.value(epoch));
      }
      if (any) run["columns"][metric.name] = std::move(column);
    }
    runs.push_back(std::move(run));
  }
  Json charts = Json::array();
  for (const auto& chart : content.charts) {
    Json lines = Json::array();
    for (const auto& line : chart.lines) {
      lines.push_back({{"key", line.key}, {"label", line.label}, {"dashed", line.dashed}});
    }
    charts.push_back({{"id", chart.id},
                      {"format", chart.format},
                      {"log", chart.log},
                      {"steps", chart.steps},
                      {"lines", lines}});
  }
  const Json all = {{"runs", runs}, {"charts", charts}, {"colours", base::kChartColors}};
  return base::escape_json_for_script(all.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace stiefel::report
