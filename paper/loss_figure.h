#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiment.h"

namespace stiefel::paper {

using History = std::vector<record::EpochMetrics>;

/// The form that Figures 1 and 2 share: training loss of WRN-28-10, a panel (column) a data set and a curve
/// (row) a method. Cells hold the last epoch's loss. The claim is borne out where `judge_panel` says so of
/// both panels; it is asked of one once all methods have been run there.
Experiment loss_figure(const std::string& name, const std::vector<std::string>& methods,
                       Experiment::Axis axis,
                       std::function<Verdict(const Results&, const std::string& panel)> judge_panel);

/// The histories of the seeds that are there; none where the cell has not been run.
std::vector<const History*> histories(const Results& results, const std::string& method,
                                      const std::string& panel);

/// The mean over those seeds, of which there is at least one, of what `judged` takes from a history.
double mean_over_seeds(const Results& results, const std::string& method, const std::string& panel,
                       const std::function<double(const History&)>& judged);

}  // namespace stiefel::paper
