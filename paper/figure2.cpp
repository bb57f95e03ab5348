#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "declarations.h"
#include "loss_figure.h"
#include "recipes.h"

namespace stiefel::paper {

namespace {

double last_loss(const History& epochs) { return epochs.back().train_loss; }

/// The training seconds until the loss is first at the level or below; infinite where the run diverged,
/// whatever it passed before.
double seconds_to(const History& epochs, double level) {
  if (std::isfinite(last_loss(epochs))) {
    for (const auto& epoch : epochs) {
      if (epoch.train_loss <= level) return epoch.seconds;
    }
  }
  return std::numeric_limits<double>::infinity();
}

/// The worst of the last losses: every run that did not diverge gets there.
double common_level(const Results& results, const std::string& panel) {
  double level = 0;
  for (const auto& method : all_methods()) {
    for (const auto* epochs : histories(results, method, panel)) {
      if (std::isfinite(last_loss(*epochs))) level = std::max(level, last_loss(*epochs));
    }
  }
  return level;
}

Verdict judge_by_seconds(const Results& results, const std::string& panel) {
  const double level = common_level(results, panel);
  const auto to_level = [&](const History& epochs) { return seconds_to(epochs, level); };
  for (const auto& ours : {"cayley-sgd", "cayley-adam"}) {
    const double end = mean_over_seeds(results, ours, panel, last_loss);
    if (!std::isfinite(end)) return diverged(fmt::format("{} on {}", ours, panel));
    const double seconds = mean_over_seeds(results, ours, panel, to_level);
    for (const auto& rival : rival_methods()) {
      const double theirs = or_worst(mean_over_seeds(results, rival, panel, to_level));
      if (!(seconds < theirs)) {
        return {Verdict::Kind::kNotBorneOut,
                fmt::format("{}: a loss of {:.3g} takes {} {:.0f} s, {} {:.0f} s", panel, level, ours,
                            seconds, rival, theirs)};
      }
    }
    for (const auto& baseline : {"sgd", "adam"}) {
      const double theirs = or_worst(mean_over_seeds(results, baseline, panel, last_loss));
      if (!(end <= theirs)) {
        return {Verdict::Kind::kNotBorneOut,
                fmt::format("{}: {} ends at {:.3g}, {} at {:.3g}", panel, ours, end, baseline, theirs)};
      }
    }
  }
  return {Verdict::Kind::kBorneOut, ""};
}

}  // namespace

Experiment figure2() {
  auto figure = loss_figure("figure2", all_methods(), Experiment::Axis::kSeconds, judge_by_seconds);
  figure.title = "training loss of WRN-28-10 by seconds";
  figure.claim =
      "Cayley SGD and Cayley ADAM converge the fastest among methods that also address orthonormality, and "
      "catch up with the baselines.";
  figure.test =
      "On both data sets Cayley SGD and Cayley ADAM reach the loss that every run reaches, those that "
      "diverged aside, in less time than the nine other methods that address orthonormality, and end at a "
      "loss no higher than SGD's and ADAM's: means over the seeds. A method with a run that diverged is "
      "worse than any without.";
  figure.alike = [](const Cell&) { return true; };
  figure.note =
      "Cells hold the last epoch's training loss; the curves are in the SVG, CSV and JSON. Compare times of "
      "runs from one machine only.";
  return figure;
}

}  // namespace stiefel::paper
