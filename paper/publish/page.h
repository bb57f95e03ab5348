#pragma once

#include <string>
#include <vector>

#include "paper/experiment.h"

namespace stiefel::paper {

/// An experiment as one HTML page that needs nothing beside it, of the report's kind: the table or the
/// figure, the paper's claim, the test and the verdict; below, the curves of the runs that the cells come
/// from, and where those were made. Throws std::runtime_error naming the file where a run's is damaged.
std::string experiment_page(const Results& results, const Verdict& verdict);

}  // namespace stiefel::paper
