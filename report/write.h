#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/run_folder.h"

namespace stiefel::report {

/// Writes the page of these runs to `file`: to a temporary file beside it first, which then takes its name,
/// so that `file` is never half a page and an older one stays until the new one is whole. Throws
/// std::runtime_error naming the file and the cause.
void write_report(const std::vector<RunFolder>& runs, const std::filesystem::path& file);

/// The same for any text.
void write_atomically(const std::string& text, const std::filesystem::path& file);

}  // namespace stiefel::report
