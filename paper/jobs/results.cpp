#include "results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "paper/publish/provenance_table.h"

namespace stiefel::paper {

CellResult fill_cell(const Cell& cell, const std::set<int64_t>& seeds, const RunStore& store, Scale scale,
                     const RunEnvironment& environment, const std::function<void(const RunRecord&)>& use) {
  CellResult result{cell, static_cast<int64_t>(seeds.size()), {}, {}, {}};
  if (!cell.recipe) return result;
  for (const auto seed : seeds) {
    const auto* record = store.find(run_spec(*cell.recipe, scale, seed, environment));
    if (!record || !record->finished()) continue;
    result.measured.push_back({seed, cell.read(*record), provenance(*record), record->epochs});
    use(*record);
  }
  return result;
}

Results collect_results(const Experiment& experiment, const std::vector<Cell>& cells, int64_t seeds,
                        Scale scale, const RunEnvironment& environment, const std::filesystem::path& out) {
  Results results{&experiment, scale, {}};
  const RunStore store(out, scale);
  std::set<int64_t> wanted;
  for (int64_t seed = 1; seed <= seeds; ++seed) wanted.insert(seed);
  for (const auto& cell : cells) {
    results.cells.push_back(fill_cell(cell, wanted, store, scale, environment, [](const RunRecord&) {}));
  }
  return results;
}

namespace {

/// The kinds of machine that made the numbers which compare only on one.
std::set<std::string> machines_of(const Results& results) {
  std::set<std::string> machines;
  if (!results.experiment->alike) return machines;
  for (const auto& result : results.cells) {
    if (!results.experiment->alike(result.cell)) continue;
    for (const auto& measured : result.measured) machines.insert(machine_of(measured.origin));
  }
  return machines;
}

bool of_one_seed(const Results& results) {
  return std::all_of(results.cells.begin(), results.cells.end(),
                     [](const CellResult& result) { return result.measured.size() <= 1; });
}

}  // namespace

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
  auto verdict = experiment.judge(results);
  if (verdict.kind != Verdict::Kind::kOpen) {
    const auto machines = machines_of(results);
    if (machines.size() > 1)
      return {Verdict::Kind::kOpen, fmt::format("measured on {}", fmt::join(machines, ", and on "))};
  }
  // What chance does, one seed cannot tell.
  if (verdict.kind != Verdict::Kind::kOpen && !experiment.compute && of_one_seed(results))
    verdict.why += verdict.why.empty() ? "one seed" : "; one seed";
  if (verdict.kind == Verdict::Kind::kOpen && results.cells.size() < experiment.cells.size())
    verdict.why = "--only took some of the cells alone";
  return verdict;
}

EpochCount epoch_count(const Cell& cell, Scale scale) {
  if (!cell.recipe || cell.recipe->unitariness) return {};
  return {run_spec(*cell.recipe, scale, 1, {}).config.epochs, cell.recipe->config.epochs};
}

}  // namespace stiefel::paper
