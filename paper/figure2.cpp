#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "declarations.h"
#include "loss_figure.h"
#include "recipes.h"

namespace stiefel::paper {

namespace {

using History = std::vector<train::EpochMetrics>;

/// The training seconds until the loss is first at the level or below; infinite where it never is.
double seconds_to(const History& epochs, double level) {
  for (const auto& epoch : epochs) {
    if (epoch.train_loss <= level) return epoch.seconds;
  }
  return std::numeric_limits<double>::infinity();
}

Verdict judge_panel(const Results& results, const std::string& panel) {
  double level = 0;  // the worst of the last losses: every method gets there
  for (const auto& method : all_methods()) {
    const auto* epochs = history(results, method, panel);
    if (!epochs) return {Verdict::Kind::kOpen, fmt::format("{} on {} has not been run", method, panel)};
    level = std::max(level, epochs->back().train_loss);
  }
  for (const auto& ours : {"cayley-sgd", "cayley-adam"}) {
    const auto& mine = *history(results, ours, panel);
    const double seconds = seconds_to(mine, level);
    for (const auto& method : constraining_methods()) {
      if (method == "cayley-sgd" || method == "cayley-adam") continue;
      const double theirs = seconds_to(*history(results, method, panel), level);
      if (!(seconds < theirs)) {
        return {Verdict::Kind::kNotBorneOut,
                fmt::format("{}: a loss of {:.3g} takes {} {:.0f} s, {} {:.0f} s", panel, level, ours,
                            seconds, method, theirs)};
      }
    }
    for (const auto& baseline : {"sgd", "adam"}) {
      const double theirs = history(results, baseline, panel)->back().train_loss;
      if (!(mine.back().train_loss <= theirs)) {
        return {Verdict::Kind::kNotBorneOut, fmt::format("{}: {} ends at {:.3g}, {} at {:.3g}", panel, ours,
                                                         mine.back().train_loss, baseline, theirs)};
      }
    }
  }
  return {Verdict::Kind::kBorneOut, ""};
}

}  // namespace

Experiment figure2() {
  auto figure = loss_figure("figure2", all_methods(), Experiment::Axis::kSeconds);
  figure.title = "training loss of WRN-28-10 by seconds";
  figure.claim =
      "Cayley SGD and Cayley ADAM converge the fastest among methods that also address orthonormality, and "
      "catch "
      "up with the baselines.";
  figure.test =
      "On both data sets Cayley SGD and Cayley ADAM reach the loss that every method reaches in less time "
      "than the "
      "nine other methods that address orthonormality, and end at a loss no higher than SGD's and ADAM's.";
  figure.note =
      "Cells hold the last epoch's training loss; the curves are in the SVG, CSV and JSON. Compare times of "
      "runs "
      "from one machine only.";
  figure.judge = [](const Results& results) -> Verdict {
    for (const auto& panel : panels()) {
      const auto verdict = judge_panel(results, panel);
      if (verdict.kind != Verdict::Kind::kBorneOut) return verdict;
    }
    return {Verdict::Kind::kBorneOut, "on both data sets"};
  };
  return figure;
}

}  // namespace stiefel::paper
