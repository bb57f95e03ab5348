#pragma once

#include <cmath>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "paper/jobs/cached_results.h"
#include "paper/jobs/run_spec.h"
#include "paper/registry.h"
#include "record/metrics.h"

// Finished runs of the paper's recipes, and computations, as another machine would have left them, made up.

namespace samples {

/// The run of a cell, with `error` after its last epoch. Every epoch before has another error.
inline std::filesystem::path write_cell_run(const std::filesystem::path& out, const std::string& experiment,
                                            const std::string& only, double error, int64_t seed = 1,
                                            stiefel::paper::Scale scale = stiefel::paper::Scale::kFull,
                                            const std::string& name = "") {
  namespace paper = stiefel::paper;
  namespace record = stiefel::record;
  const auto cells = paper::choose_cells(paper::find_experiment(experiment), only);
  const auto spec = paper::run_spec(*cells.at(0).recipe, scale, seed, {"cpu", "auto", 0, ""});
  const auto folder = out / paper::to_string(scale) / (name.empty() ? spec.name : name);
  std::filesystem::create_directories(folder);
  const bool cayley = spec.config.optim.rfind("cayley", 0) == 0;
  nlohmann::json facts{{"name", spec.name},
                       {"status", "finished"},
                       {"device", "cuda:0"},
                       {"precision", "bf16"},
                       {"seed", seed},
                       {"data", spec.config.data},
                       {"model", spec.config.model},
                       {"optim", spec.config.optim},
                       {"commit", "0123456789ab-dirty"},
                       {"started", "2026-01-31T12:00:00Z"},
                       {"seconds", 1234.5},
                       {"command", {"stiefel", "paper", experiment}},
                       {"hardware", {{"cpu", "a processor"}, {"gpu", "a <card> | b"}}},
                       {"versions", {{"libtorch", "9.9"}}}};
  std::vector<record::EpochMetrics> history;
  for (int64_t i = 1; i <= spec.config.epochs; ++i) {
    const double left = static_cast<double>(spec.config.epochs - i) / static_cast<double>(spec.config.epochs);
    record::EpochMetrics epoch;
    epoch.epoch = i;
    epoch.step = 391 * i;
    epoch.train_loss = 0.002 + std::exp(-8 * (1 - left));
    epoch.train_error = 30 * left;
    epoch.test_loss = 0.2 + left;
    epoch.test_error = error - 3 * left;  // lower before: the best epoch's must not be taken
    epoch.epoch_seconds = 4.25;
    epoch.seconds = 4.25 * static_cast<double>(i);
    if (cayley) epoch.defect_max = i == spec.config.epochs ? 3.6e-6 : 0.5;
    history.push_back(epoch);
  }
  stiefel::base::write_file(folder / "run.json", facts.dump());
  stiefel::base::write_file(folder / "config.toml", record::to_toml(spec.config));
  record::write_metrics(folder, history);
  return folder;
}

/// All cells of a theorem, seeds 1 and 2: the paper's figure + 0.01 and + 0.03. The first cell has a remark,
/// the last is no test.
inline stiefel::paper::Results computed_theorem(const std::string& name,
                                                stiefel::paper::Scale scale = stiefel::paper::Scale::kFull) {
  namespace paper = stiefel::paper;
  const auto& theorem = paper::find_experiment(name);
  paper::Results results{&theorem, scale, {}};
  for (const auto& cell : theorem.cells) {
    paper::CellResult result{cell, 2, {}, true, ""};
    for (int64_t seed = 1; seed <= 2; ++seed) {
      const nlohmann::json origin{{"command", {"stiefel", "paper", name}},
                                  {"commit", "0123456789ab"},
                                  {"hardware", {{"cpu", "a processor"}, {"gpu", "a card"}}},
                                  {"device", "cpu"},
                                  {"precision", "fp64"},
                                  {"libtorch", "9.9"},
                                  {"seed", seed},
                                  {"seeds", 2},
                                  {"seconds", 0.1 * static_cast<double>(seed)},
                                  {"date", "2026-01-31T12:00:00Z"}};
      result.measured.push_back({seed, cell.printed.at(0).value + (seed == 1 ? 0.01 : 0.03), origin, {}});
    }
    results.cells.push_back(std::move(result));
  }
  results.cells.front().remark = "95 % of something";
  results.cells.back().passes.reset();
  return results;
}

}  // namespace samples
