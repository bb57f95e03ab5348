#pragma once

#include <filesystem>
#include <optional>

#include "paper/experiment.h"

/// Results of computed experiments, cached beside the runs: they are shown again without being computed.
namespace stiefel::paper {

/// OUT/SCALE/NAME.json: never taken for a run, which is a folder, or a file that calls itself a kept run.
std::filesystem::path cached_results_file(const Experiment& experiment, Scale scale,
                                          const std::filesystem::path& out);

/// Writes results in place of those cached before. Only whole ones are cached, so that `--only` never removes
/// cells: false where a cell of the experiment is missing.
bool cache_results(const Results& results, const std::filesystem::path& out);

/// The results as they were cached; nothing where there are none. Throws std::runtime_error naming the file
/// and what is wrong with it where it is damaged, or is of another experiment, scale or set of cells.
std::optional<Results> read_cached_results(const Experiment& experiment, Scale scale,
                                           const std::filesystem::path& out);

/// The seeds that computed results were made with; 0 where nothing was computed.
int64_t seeds_of(const Results& computed);

}  // namespace stiefel::paper
