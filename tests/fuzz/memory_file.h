#pragma once

#include <filesystem>
#include <string_view>

namespace fuzz {

/// A file that lies in memory, for readers that take the name of one.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  const std::filesystem::path& path() const { return path_; }

 private:
  int file_;
  std::filesystem::path path_;
};

/// A folder in memory, the same for all inputs of this process.
const std::filesystem::path& memory_folder();

void write(const std::filesystem::path& file, std::string_view bytes);

}  // namespace fuzz
