#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Whole files, read and written with every call checked. No LibTorch here.
namespace stiefel::files {

/// Reads a whole file. Throws std::runtime_error naming it and the cause.
std::string read(const std::filesystem::path& file);

/// Writes a file so that a crash or a full disk leaves either the old one or the new one: into a temporary
/// file beside it, flushed to the disk, which then takes its name. Throws std::runtime_error naming the file,
/// the cause and the remedy, and leaves no temporary file.
void write(const std::filesystem::path& file, const std::string& bytes);

/// The same with the pieces one after the other, which need not be put together first.
void write_pieces(const std::filesystem::path& file, const std::vector<std::string_view>& pieces);

}  // namespace stiefel::files
