#pragma once

#include <filesystem>
#include <functional>
#include <set>

#include "paper/experiment.h"
#include "run_spec.h"
#include "run_store.h"

namespace stiefel::paper {

/// The cell with what the finished runs of these seeds say. `use` is called with each of the runs.
CellResult fill_cell(const Cell& cell, const std::set<int64_t>& seeds, const RunStore& store, Scale scale,
                     const RunEnvironment& environment, const std::function<void(const RunRecord&)>& use);

/// What the finished runs in OUT/SCALE say about the cells, with seeds 1 … N. Cells without a run are empty.
Results collect_results(const Experiment& experiment, const std::vector<Cell>& cells, int64_t seeds,
                        Scale scale, const RunEnvironment& environment, const std::filesystem::path& out);

/// What every output of these results says of their scale; empty where they are the paper's in full.
std::string mark_of(const Results& results);

/// Whether the results bear the claim out; open at smoke scale, whatever the numbers.
Verdict judge(const Results& results);

/// The epochs that the cells' runs have at this scale and at full scale; 0 where they are not training runs.
struct EpochCount {
  int64_t here = 0;
  int64_t full = 0;
};
EpochCount epoch_count(const Cell& cell, Scale scale);

}  // namespace stiefel::paper
