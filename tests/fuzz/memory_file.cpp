#include "memory_file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "target.h"

namespace fuzz {

namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string pattern =
        fs::is_directory("/dev/shm") ? "/dev/shm/stiefel_fuzz_XXXXXX" : "/tmp/stiefel_fuzz_XXXXXX";
    require(::mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

MemoryFile::MemoryFile(std::string_view bytes)
    : file_(::memfd_create("input", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(file_)) {
  require(file_ >= 0, "no file in memory");
  while (!bytes.empty()) {
    const auto written = ::write(file_, bytes.data(), bytes.size());
    require(written > 0, "the memory is full");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

MemoryFile::~MemoryFile() { ::close(file_); }

const fs::path& memory_folder() {
  static const Folder folder;
  return folder.path;
}

void write(const fs::path& file, std::string_view bytes) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  require(!stream.fail(), "the memory is full");
}

}  // namespace fuzz
