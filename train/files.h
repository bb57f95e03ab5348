#pragma once

#include <filesystem>
#include <string>

namespace stiefel::train {

/// Reads a whole file. Throws std::runtime_error naming it and the reason.
std::string read_file(const std::filesystem::path& path);

/// Writes a file so that a crash or a full disk leaves either the old one or the new one: into a temporary
/// file beside it, flushed to the disk, then renamed. Throws std::runtime_error naming the file and the
/// reason, and removes the temporary file.
void write_file(const std::filesystem::path& path, const std::string& bytes);

}  // namespace stiefel::train
