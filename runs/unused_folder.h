#pragma once

#include <filesystem>

namespace stiefel::train {

/// Whether a new run may use a folder that exists: it is empty, or holds only the temporary file of a run
/// that was killed while it wrote its first file, config.toml.
bool is_unused(const std::filesystem::path& folder);

}  // namespace stiefel::train
