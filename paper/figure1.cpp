#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "declarations.h"
#include "loss_figure.h"
#include "recipes.h"

namespace stiefel::paper {

namespace {

/// The mean of log(loss) over the epochs that the paper draws: 40 to 200 of 200. Not finite where the run
/// diverged, and only there: a loss of 0 counts as the least number above it.
double mean_log_loss(const History& epochs) {
  const auto first = epochs.size() / 5;
  double sum = 0;
  for (size_t i = first; i < epochs.size(); ++i) {
    const double loss = epochs[i].train_loss;
    sum += std::log(loss == 0 ? std::numeric_limits<double>::min() : loss);
  }
  return sum / static_cast<double>(epochs.size() - first);
}

Verdict judge_by_epochs(const Results& results, const std::string& panel) {
  for (const auto& ours : {"cayley-sgd", "cayley-adam"}) {
    const double mine = mean_over_seeds(results, ours, panel, mean_log_loss);
    if (!std::isfinite(mine)) return diverged(fmt::format("{} on {}", ours, panel));
    for (const auto& baseline : {"sgd", "adam"}) {
      const double theirs = or_worst(mean_over_seeds(results, baseline, panel, mean_log_loss));
      if (!(mine < theirs)) {
        return {Verdict::Kind::kNotBorneOut, fmt::format("{}: mean log(loss) {:.2f} for {}, {:.2f} for {}",
                                                         panel, mine, ours, theirs, baseline)};
      }
    }
  }
  return {Verdict::Kind::kBorneOut, ""};
}

}  // namespace

Experiment figure1() {
  auto figure = loss_figure("figure1", main_methods(), Experiment::Axis::kEpochs, judge_by_epochs);
  figure.title = "training loss of WRN-28-10 by epoch";
  figure.claim = "Cayley SGD and Cayley ADAM achieve the top two fastest convergence rates.";
  figure.test =
      "On both data sets the mean of log(loss) over the epochs drawn (40 to 200 of 200) and over the seeds "
      "is lower for Cayley SGD and for Cayley ADAM than for SGD and for ADAM. A method with a run that "
      "diverged is worse than any without.";
  figure.note = "Cells hold the last epoch's training loss; the curves are in the SVG, CSV and JSON.";
  return figure;
}

}  // namespace stiefel::paper
