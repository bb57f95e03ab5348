#include <algorithm>

#include "base/escape.h"
#include "base/html.h"
#include "report/content.h"
#include "report/facts.h"

namespace stiefel::report {

namespace {

std::string fact_list(const std::vector<Pair>& facts) {
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [title, value] : facts) {
    const bool command = title == kCommandFact;
    out += std::string("<div") + (command ? " class=\"wide\"" : "") + ">" + base::element("dt", title) +
           "<dd>" + (command ? base::element("code", value) : base::escape_html(value)) + "</dd></div>\n";
  }
  return out + "</dl>\n";
}

}  // namespace

/// Facts that all runs share come first, then those of each run.
std::string system_section(const Content& content) {
  std::vector<std::vector<Pair>> facts;
  for (const auto& run : content.runs) facts.push_back(facts_of(run));
  if (content.single()) return section("system", "System", fact_list(facts[0]));
  std::vector<Pair> shared;
  for (const auto& fact : facts[0]) {
    const bool everywhere = std::all_of(facts.begin(), facts.end(), [&](const auto& run) {
      return std::find(run.begin(), run.end(), fact) != run.end();
    });
    if (everywhere) shared.push_back(fact);
  }
  std::string out = shared.empty() ? "" : "<h3>All runs</h3>\n" + fact_list(shared);
  for (size_t i = 0; i < facts.size(); ++i) {
    std::vector<Pair> own;
    for (const auto& fact : facts[i]) {
      if (std::find(shared.begin(), shared.end(), fact) == shared.end()) own.push_back(fact);
    }
    if (own.empty()) continue;
    out += "<details><summary>" + run_name(content, i) + "</summary>\n" + fact_list(own) + "</details>\n";
  }
  return section("system", "System", out);
}

}  // namespace stiefel::report
