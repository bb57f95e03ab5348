#include "files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace stiefel::train {

namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags, 0644)) {
    if (fd_ < 0) fail("cannot be opened");
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const auto count = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot be written");
      done += static_cast<size_t>(count);
    }
  }

  void flush_and_close() {
    if (::fsync(fd_) != 0 && errno != EINVAL) fail("cannot be flushed to the disk");
    const int result = ::close(fd_);
    fd_ = -1;
    if (result != 0) fail("cannot be closed");
  }

  std::string read_all() {
    std::string bytes;
    std::string piece(1 << 20, '\0');
    for (;;) {
      const auto count = ::read(fd_, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot be read");
      if (count == 0) return bytes;
      bytes.append(piece, 0, static_cast<size_t>(count));
    }
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(fmt::format("{}: {}: {}", path_.string(), what, std::strerror(errno)));
  }

  std::filesystem::path path_;
  int fd_;
};

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  return Descriptor(path, O_RDONLY | O_CLOEXEC).read_all();
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  auto temporary = path;
  temporary += ".tmp";
  try {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    file.write(bytes);
    file.flush_and_close();
    std::filesystem::rename(temporary, path);
  } catch (const std::exception&) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  // The rename itself is durable once the folder is.
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  Descriptor(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC).flush_and_close();
}

}  // namespace stiefel::train
