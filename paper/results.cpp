#include "results.h"

#include "run_store.h"

namespace stiefel::paper {

Results collect_results(const Experiment& experiment, const std::vector<Cell>& cells, int64_t seeds,
                        Scale scale, const Circumstances& circumstances, const std::filesystem::path& out) {
  Results results{&experiment, scale, {}};
  const RunStore store(out, scale);
  for (const auto& cell : cells) {
    CellResult result{cell, seeds, {}, {}, {}};
    for (int64_t seed = 1; cell.recipe && seed <= seeds; ++seed) {
      const auto* record = store.find(run_spec(*cell.recipe, scale, seed, circumstances));
      if (!record || !record->finished()) continue;
      result.measured.push_back({seed, cell.read(*record), provenance(*record), record->epochs});
    }
    results.cells.push_back(std::move(result));
  }
  return results;
}

std::string mark_of(const Results& results) {
  const auto& experiment = *results.experiment;
  if (results.scale == Scale::kFull || !experiment.compute) return mark(results.scale);
  return experiment.lessened.empty() ? "" : to_string(results.scale) + ": " + experiment.lessened;
}

Verdict judge(const Results& results) {
  const auto& experiment = *results.experiment;
  if (!experiment.judge) return {};
  // Theorems are judged at every scale: what they compute is the same, only less of it.
  if (results.scale == Scale::kSmoke && !experiment.compute) {
    return {Verdict::Kind::kOpen, "not judged by a stand-in"};
  }
  return experiment.judge(results);
}

EpochCount epoch_count(const Cell& cell, Scale scale) {
  if (!cell.recipe || cell.recipe->unitariness) return {};
  return {run_spec(*cell.recipe, scale, 1, {}).config.epochs, cell.recipe->config.epochs};
}

}  // namespace stiefel::paper
