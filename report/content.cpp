#include "report/content.h"

#include <cmath>

#include "report/text.h"

namespace stiefel::report {

namespace {

/// The sample of a run's line that stands beside its name everywhere.
std::string swatch(size_t run) {
  return "<svg class=\"swatch c" + std::to_string(run % kColours) +
         "\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line\" d=\"M2 5H24\"/>" +
         svg_mark(run, 13, 5) + "</svg>";
}

}  // namespace

Content::Content(const std::vector<RunFolder>& all)
    : runs(all), labels(report::labels(all)), charts(charts_of(all)) {
  for (const auto& run : runs) summaries.push_back(summarise(run));
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

std::string element(const std::string& open, const std::string& text) {
  return "<" + open + ">" + escape_html(text) + "</" + open.substr(0, open.find(' ')) + ">";
}

std::string run_name(const Content& content, size_t run) {
  const std::string name = escape_html(content.labels[run]);
  return "<span class=\"run\" title=\"" + name + "\">" + swatch(run) + "<span class=\"name\">" + name +
         "</span></span>";
}

std::string section(const std::string& id, const std::string& title, const std::string& body) {
  return "<section aria-labelledby=\"" + id + "\">\n<h2 id=\"" + id + "\">" + escape_html(title) + "</h2>\n" +
         body + "</section>\n";
}

}  // namespace stiefel::report
