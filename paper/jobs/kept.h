#pragma once

#include <filesystem>
#include <optional>

#include "paper/experiment.h"

/// What an experiment computed, kept beside the runs: it is shown again without being computed.
namespace stiefel::paper {

/// OUT/SCALE/NAME.json: a file, so that it is never taken for a run, which is a folder.
std::filesystem::path kept_file(const Experiment& experiment, Scale scale, const std::filesystem::path& out);

/// Keeps results, in place of those kept before. Only whole ones are kept, so that `--only` never takes cells
/// away: false where a cell of the experiment is missing.
bool keep_results(const Results& results, const std::filesystem::path& out);

/// The results as they were kept; nothing where there are none. Throws std::runtime_error naming the file and
/// what is wrong with it where it is damaged, or is of another experiment, scale or set of cells.
std::optional<Results> read_kept(const Experiment& experiment, Scale scale, const std::filesystem::path& out);

/// The seeds that computed results were made with; 0 where nothing was computed.
int64_t seeds_of(const Results& computed);

}  // namespace stiefel::paper
