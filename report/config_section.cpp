#include <algorithm>

#include "report/content.h"
#include "report/settings.h"
#include "report/text.h"

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
    out += "<div>" + element("dt", setting.key) + element("dd", values_of(setting)) + "</div>\n";
  }
  return out + "</dl>\n";
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
    out =
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Settings that differ\">\n"
        "<table class=\"settings\">\n<thead><tr><th scope=\"col\">Setting</th>";
    for (size_t i = 0; i < content.runs.size(); ++i)
      out += "<th scope=\"col\">" + run_name(content, i) + "</th>";
    out += "</tr></thead>\n<tbody>\n";
    for (const auto& setting : different) {
      const std::string usual = setting.usual();
      const auto common = std::count(setting.values.begin(), setting.values.end(), usual);
      const bool has_usual = 2 * static_cast<size_t>(common) > content.runs.size();
      out += "<tr>" + element("th scope=\"row\"", setting.key);
      for (size_t i = 0; i < content.runs.size(); ++i) {
        const std::string& value = setting.values[i];
        const bool counts = setting.present[i] && !setting.idle[i];
        const std::string kind = !counts ? "absent" : has_usual && value != usual ? "unusual" : "";
        out += "<td" + (kind.empty() ? "" : " class=\"" + kind + "\"") + ">" +
               escape_html(!counts         ? "–"
                           : value.empty() ? "\"\""
                                           : value) +
               "</td>";
      }
      out += "</tr>\n";
    }
    out += "</tbody>\n</table>\n</div>\n";
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
