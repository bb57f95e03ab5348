#include <cmath>
#include <cstdio>
#include <functional>
#include <set>

#include "base/escape.h"
#include "base/format_number.h"
#include "base/html.h"
#include "report/content.h"
#include "report/text.h"

namespace stiefel::report {

namespace {

std::string verb(const RunFolder& run) {
  return run.status == "running" ? " stands at " : run.status == "interrupted" ? " stopped at " : " ends at ";
}

/// The result in one sentence: the lowest test error at the end of training, not the lowest that any epoch
/// had, as picking the epoch by the test set flatters. Of several runs it is the number that is said first,
/// not a winner: which of two single runs ends lower depends on chance as much as on the method.
std::string headline(const Content& content) {
  const std::string data = display_name(content.common(&RunFolder::data));
  const size_t best = content.extreme(&Summary::last_test_error);
  if (best < content.runs.size() && (!data.empty() || content.single())) {
    const std::string who = "<span class=\"who\">" + base::escape_html(content.labels[best]) + "</span>";
    const std::string error =
        "<strong>" + base::format_percent(content.summaries[best].last_test_error) + "</strong>";
    const std::string where = data.empty() ? "" : " on " + base::escape_html(data);
    if (content.single()) return who + verb(content.runs[best]) + error + " test error" + where;
    return "Lowest last test error" + where + ": " + error + ", " + who;
  }
  std::set<std::string> names;
  for (const auto& run : content.runs) names.insert(run.data);
  return plural(content.runs.size(), "run") + " on " +
         (data.empty() ? plural(names.size(), "data set") : base::escape_html(data));
}

/// How much runs of one method differ by their seeds, which a difference between methods has to exceed.
std::string about_seeds(const Content& content) {
  if (content.seeds.most == 1) return "one seed of each method: no verdict on the methods";
  if (std::isnan(content.seeds.spread)) return "seeds of a method cannot be compared yet";
  char points[64];
  std::snprintf(points, sizeof points, "seeds of one method differ by up to %.2f points",
                content.seeds.spread);
  return points;
}

std::string subtitle(const Content& content) {
  std::vector<std::string> parts;
  const auto& runs = content.runs;
  const size_t best = content.extreme(&Summary::last_test_error);
  if (!content.single() && best < runs.size() && !content.common(&RunFolder::data).empty()) {
    size_t next = runs.size();
    for (size_t i = 0; i < runs.size(); ++i) {
      const double error = content.summaries[i].last_test_error;
      if (i == best || std::isnan(error)) continue;
      if (next == runs.size() || error < content.summaries[next].last_test_error) next = i;
    }
    if (next < runs.size()) {
      const double lead = content.summaries[next].last_test_error - content.summaries[best].last_test_error;
      char points[32];
      std::snprintf(points, sizeof points, "%.2f", lead);
      const std::string name = "<span class=\"who\">" + base::escape_html(content.labels[next]) + "</span>";
      parts.push_back(lead < 0.005 ? "level with " + name : std::string(points) + " points below " + name);
    }
  }
  if (!parts.empty()) {  // otherwise the headline says how many there are
    parts.push_back(plural(runs.size(), "run"));
    parts.push_back(about_seeds(content));
  }
  const auto fact = [&](const std::string& title, const std::string& value) {
    if (!value.empty())
      parts.push_back((title.empty() ? "" : title + " ") + base::escape_html(display_name(value)));
  };
  fact("network", content.common(&RunFolder::model));
  fact("", content.common(&RunFolder::optim));
  const double longest = content.summaries[content.extreme(&Summary::epochs, true) % runs.size()].epochs;
  if (std::isfinite(longest))
    parts.push_back(base::format_count(longest) + (longest == 1 ? " epoch" : " epochs"));
  if (const std::string day = runs[0].started.substr(0, 10); !day.empty())
    parts.push_back(base::escape_html(day));
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    out += "<span>" + parts[i] + (i + 1 < parts.size() ? " <i>·</i>" : "") + "</span> ";
  }
  return out;
}

std::string tile(const std::string& title, const std::string& value, const std::string& note) {
  return "<div class=\"tile\"><dt>" + title + "</dt><dd><b>" + value + "</b><span>" + note +
         "</span></dd></div>\n";
}

std::string tiles(const Content& content) {
  std::string out;
  const auto add = [&](const std::string& title, double Summary::*value, std::string (*format)(double),
                       bool greatest, const std::function<std::string(const Summary&)>& alone) {
    const size_t which = content.extreme(value, greatest);
    if (which == content.runs.size()) return;
    const Summary& summary = content.summaries[which];
    out += tile(title, format(summary.*value), content.single() ? alone(summary) : run_name(content, which));
  };
  const bool single = content.single();
  if (!single && content.common(&RunFolder::data).empty()) return "";  // nothing there to rank
  add(single ? "Test error" : "Best test error", &Summary::best_test_error, base::format_percent, false,
      [](const Summary& s) {
        return (s.validation_decides
                    ? "at epoch " + base::format_count(s.best_epoch) + ", the best by validation"
                    : "the lowest, at epoch " + base::format_count(s.best_epoch));
      });
  add(single ? "Training loss" : "Lowest training loss", &Summary::last_train_loss, base::format_loss, false,
      [](const Summary& s) { return "after epoch " + base::format_count(s.epochs); });
  add(single ? "Time per epoch" : "Fastest epoch", &Summary::epoch_seconds, base::format_seconds, false,
      [](const Summary& s) {
        return std::isnan(s.images_per_second) ? "median"
                                               : base::format_count(s.images_per_second) + " images/s";
      });
  add("Largest defect ‖XᵀX − I‖", &Summary::defect_max, base::format_small, true,
      [](const Summary&) { return std::string("over all epochs"); });
  return out.empty() ? "" : "<dl class=\"tiles\">\n" + out + "</dl>\n";
}

std::string warnings(const Content& content) {
  std::string out;
  for (size_t i = 0; i < content.runs.size(); ++i) {
    for (const auto& warning : content.runs[i].warnings) {
      out += "<li>" + base::element("b", content.labels[i]) + ": " + base::escape_html(warning) + "</li>\n";
    }
  }
  return out.empty() ? "" : "<ul class=\"warnings\" role=\"note\">\n" + out + "</ul>\n";
}

}  // namespace

std::string header_section(const Content& content) {
  return "<header>\n<p class=\"kind\"><b>stiefel</b> training report</p>\n<h1>" + headline(content) +
         "</h1>\n<p class=\"subtitle\">" + subtitle(content) + "</p>\n" + tiles(content) + warnings(content) +
         "</header>\n";
}

}  // namespace stiefel::report
