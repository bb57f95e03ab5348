#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "declarations.h"
#include "loss_figure.h"
#include "recipes.h"

namespace stiefel::paper {

namespace {

/// The mean of log(loss) over the epochs that the paper draws: 40 to 200 of 200.
double mean_log_loss(const std::vector<train::EpochMetrics>& epochs) {
  const auto first = epochs.size() / 5;
  double sum = 0;
  for (size_t i = first; i < epochs.size(); ++i) sum += std::log(epochs[i].train_loss);
  return sum / static_cast<double>(epochs.size() - first);
}

}  // namespace

Experiment figure1() {
  auto figure = loss_figure("figure1", main_methods(), Experiment::Axis::kEpochs);
  figure.title = "training loss of WRN-28-10 by epoch";
  figure.claim = "Cayley SGD and Cayley ADAM achieve the top two fastest convergence rates.";
  figure.test =
      "On both data sets the mean of log(loss) over the epochs drawn (40 to 200 of 200) is lower for Cayley "
      "SGD "
      "and for Cayley ADAM than for SGD and for ADAM.";
  figure.note = "Cells hold the last epoch's training loss; the curves are in the SVG, CSV and JSON.";
  figure.judge = [](const Results& results) -> Verdict {
    for (const auto& panel : panels()) {
      for (const auto& method : main_methods()) {
        if (!history(results, method, panel))
          return {Verdict::Kind::kOpen, fmt::format("{} on {} has not been run", method, panel)};
      }
      for (const auto& ours : {"cayley-sgd", "cayley-adam"}) {
        for (const auto& baseline : {"sgd", "adam"}) {
          const double mine = mean_log_loss(*history(results, ours, panel));
          const double theirs = mean_log_loss(*history(results, baseline, panel));
          if (!(mine < theirs)) {
            return {Verdict::Kind::kNotBorneOut,
                    fmt::format("{}: mean log(loss) {:.2f} for {}, {:.2f} for {}", panel, mine, ours, theirs,
                                baseline)};
          }
        }
      }
    }
    return {Verdict::Kind::kBorneOut, "on both data sets"};
  };
  return figure;
}

}  // namespace stiefel::paper
