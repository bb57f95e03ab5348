#pragma once

#include <filesystem>
#include <string>

#include "run_folder.h"

/// A run kept for others to read, as one file of a few kilobytes, NAME.json: the facts of its run.json, all
/// entries of its config.toml, and its metrics as columns, each number rounded to the digits that mean
/// something. docs/file-formats.md has the format.
namespace stiefel::record {

/// The text of the file. A text that is read and written again stays the same.
std::string kept_run_text(const RunFolder& run);

/// Reads what kept_run_text() wrote: metrics that follow from others (steps, seconds so far, images per
/// second) are computed again, and the run has the file's name. Throws DamagedRun.
RunFolder parse_kept_run(const std::filesystem::path& file, const std::string& text);

/// Whether there is a file NAME.json that calls itself a kept run, whole or damaged.
bool is_kept_run(const std::filesystem::path& file);

/// The run at a path, which is a kept run's file or a run's folder. Throws std::runtime_error as read_run
/// does.
RunFolder read_run_or_kept(const std::filesystem::path& path);

}  // namespace stiefel::record
