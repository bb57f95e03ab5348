#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Whole files, read and written with every system call checked.
namespace stiefel::base {

/// Reads a whole regular file. Throws std::runtime_error naming it and the cause; what is no regular file (a
/// fifo, a device, a folder) is refused at once instead of being waited for.
std::string read_file(const std::filesystem::path& file);

/// The same for a name that a user gave, which may be a pipe or a device: it is read until it ends.
std::string read_stream(const std::filesystem::path& file);

/// Writes a file so that a crash or a full disk leaves either the old one or the new one: into a temporary
/// file beside it, flushed to the disk, which then takes its name. A symbolic link stays and the file it
/// points to is written. What is no regular file (a device, a fifo, /dev/stdout) stays as well and gets the
/// bytes as they are. Throws std::runtime_error naming the file, the cause and the remedy, and leaves no
/// temporary file.
void write_file(const std::filesystem::path& file, const std::string& bytes);

/// The same with the pieces one after the other, which need not be put together first.
void write_pieces(const std::filesystem::path& file, const std::vector<std::string_view>& pieces);

/// Whether a name is one that write_file() gives to a temporary file: NAME.tmp, or NAME.1.tmp and so on where
/// that is taken.
bool is_temporary(const std::filesystem::path& file, const std::string& name);

}  // namespace stiefel::base
