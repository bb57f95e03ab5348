#include "report/content.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/escape.h"
#include "base/svg_chart.h"
#include "report/effect.h"

namespace stiefel::report {

namespace {

/// The sample of a run's line that stands beside its name everywhere.
std::string swatch(size_t run) {
  return "<svg class=\"swatch c" + std::to_string(run % base::kChartColors) +
         "\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line\" d=\"M2 5H24\"/>" +
         svg_mark(run, 13, 5) + "</svg>";
}

/// What a run has in common with runs of the same method on other seeds.
std::string method_of(const RunFolder& run) {
  // Where and how often it was written down does not make another method of it.
  static const std::set<std::string> aside = {"seed",    "data-dir",      "device",      "graph",
                                              "threads", "overlap-steps", "tensorboard", "checkpoint-every"};
  std::string text = run.data + '\n' + run.model + '\n' + run.optim + '\n';
  for (const auto& [key, value] : run.settings) {
    if (aside.count(key) == 0 && has_effect(key, run)) text += key + '=' + value + '\n';
  }
  return text;
}

Seeds seeds_of(const std::vector<RunFolder>& runs, const std::vector<Summary>& summaries) {
  std::map<std::string, std::set<std::string>> seeds;
  std::map<std::string, std::pair<double, double>> range;  // of last test errors
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto method = method_of(runs[i]);
    seeds[method].insert(runs[i].seed);
    const double error = summaries[i].last_test_error;
    if (std::isnan(error)) continue;
    const auto [found, fresh] = range.emplace(method, std::pair{error, error});
    if (!fresh) found->second = {std::min(found->second.first, error), std::max(found->second.second, error)};
  }
  Seeds result;
  for (const auto& [method, own] : seeds) {
    result.most = std::max(result.most, own.size());
    const auto errors = range.find(method);
    if (own.size() < 2 || errors == range.end()) continue;
    result.spread = std::fmax(result.spread, errors->second.second - errors->second.first);
  }
  return result;
}

}  // namespace

Content::Content(const std::vector<RunFolder>& all)
    : runs(all), labels(report::labels(all)), charts(charts_of(all)) {
  for (const auto& run : runs) summaries.push_back(summarize(run));
  seeds = seeds_of(runs, summaries);
}

std::string Content::common(std::string RunFolder::*value) const {
  for (const auto& run : runs) {
    if (run.*value != runs[0].*value) return "";
  }
  return runs[0].*value;
}

size_t Content::extreme(double Summary::*value, bool greatest) const {
  size_t best = runs.size();
  for (size_t i = 0; i < runs.size(); ++i) {
    const double candidate = summaries[i].*value;
    if (std::isnan(candidate)) continue;
    if (best == runs.size() ||
        (greatest ? candidate > summaries[best].*value : candidate < summaries[best].*value)) {
      best = i;
    }
  }
  return best;
}

std::string plural(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string run_name(const Content& content, size_t run) {
  const std::string name = base::escape_html(content.labels[run]);
  return "<span class=\"run\" title=\"" + name + "\">" + swatch(run) + "<span class=\"name\">" + name +
         "</span></span>";
}

std::string section(const std::string& id, const std::string& title, const std::string& body) {
  return "<section aria-labelledby=\"" + id + "\">\n<h2 id=\"" + id + "\">" + base::escape_html(title) +
         "</h2>\n" + body + "</section>\n";
}

}  // namespace stiefel::report
