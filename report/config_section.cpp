#include <algorithm>
#include <utility>

#include "base/html.h"
#include "report/content.h"
#include "report/settings.h"

namespace stiefel::report {

namespace {

/// What the runs have, each value once; of a setting that counts somewhere, only the values that do.
std::string values_of(const Setting& setting) {
  std::vector<std::string> values;
  for (size_t i = 0; i < setting.values.size(); ++i) {
    if (setting.idle[i] && !setting.is_idle()) continue;
    const std::string value = setting.values[i].empty() ? "–" : setting.values[i];
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  std::string out;
  for (const auto& value : values) out += (out.empty() ? "" : ", ") + value;
  return out;
}

std::string setting_list(const std::vector<Setting>& settings) {
  std::string out = "<dl class=\"pairs\">\n";
  for (const auto& setting : settings) {
    out += "<div>" + base::element("dt", setting.key) + base::element("dd", values_of(setting)) + "</div>\n";
  }
  return out + "</dl>\n";
}

/// The settings that differ, a column per run; a value that most runs do not have is marked.
std::string differences_table(const Content& content, const std::vector<Setting>& different) {
  const size_t runs = content.runs.size();
  base::HtmlTable table{"Settings that differ", "settings"};
  table.add_column("Setting");
  for (size_t i = 0; i < runs; ++i)
    table.head.push_back("<th scope=\"col\">" + run_name(content, i) + "</th>");
  for (const auto& setting : different) {
    const std::string usual = setting.usual();
    const auto common = std::count(setting.values.begin(), setting.values.end(), usual);
    const bool has_usual = 2 * static_cast<size_t>(common) > runs;
    std::vector<std::string> row{base::element("th scope=\"row\"", setting.key)};
    for (size_t i = 0; i < runs; ++i) {
      const std::string& value = setting.values[i];
      const bool counts = setting.present[i] && !setting.idle[i];
      const std::string kind = !counts ? "absent" : has_usual && value != usual ? "unusual" : "";
      row.push_back(base::element(kind.empty() ? "td" : "td class=\"" + kind + "\"", !counts ? "–"
                                                                                     : value.empty()
                                                                                         ? "\"\""
                                                                                         : value));
    }
    table.rows.push_back(std::move(row));
  }
  return table.html();
}

}  // namespace

std::string config_section(const Content& content) {
  const auto all = gather_settings(content.runs);
  std::vector<Setting> different, equal, idle;
  for (const auto& setting : all) {
    (setting.is_idle() ? idle : setting.differs() ? different : equal).push_back(setting);
  }
  if (all.empty()) return "";
  if (content.single()) {
    return section("config", "Configuration",
                   "<details open><summary>" + plural(all.size(), "setting") + "</summary>\n" +
                       setting_list(all) + "</details>\n");
  }
  std::string out;
  if (different.empty()) {
    out = "<p>The runs have the same settings.</p>\n";
  } else {
    out = differences_table(content, different);
  }
  if (!equal.empty()) {
    out += "<details><summary>All else equal: " + plural(equal.size(), "setting") + "</summary>\n" +
           setting_list(equal) + "</details>\n";
  }
  if (!idle.empty()) {
    out += "<details><summary>Without effect on these runs: " + plural(idle.size(), "setting") +
           "</summary>\n" + setting_list(idle) + "</details>\n";
  }
  return section("config", "Differences between the configurations", out);
}

}  // namespace stiefel::report
