#pragma once

#include <string>
#include <vector>

#include "experiment.h"

namespace stiefel::paper {

/// The form that Figures 1 and 2 share: training loss of WRN-28-10, a panel (column) a data set and a curve
/// (row) a method. Cells hold the last epoch's loss.
Experiment loss_figure(const std::string& name, const std::vector<std::string>& methods,
                       Experiment::Axis axis);

/// The panels of a loss figure: cifar10 and cifar100.
const std::vector<std::string>& panels();

/// The history of a cell's first seed; nothing where it is empty.
const std::vector<train::EpochMetrics>* history(const Results& results, const std::string& method,
                                                const std::string& panel);

}  // namespace stiefel::paper
