#pragma once

#include <filesystem>
#include <string>

namespace stiefel::data {

/// The MD5 sum of a file's bytes, or of what they uncompress to where it is gzipped, as 32 hexadecimal
/// digits. Good enough against accidents, and what the data sets' authors publish. coreutils' md5sum does it.
std::string md5_of(const std::filesystem::path& file);

}  // namespace stiefel::data
