#include "files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace stiefel::files {

namespace fs = std::filesystem;

namespace {

std::string remedy(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "; free some space or choose another place";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a folder that you may write to";
    case ENOENT:
      return "; make its folder first";
    default:
      return "";
  }
}

/// An open file that closes itself. `name` is what its errors speak of.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, fs::path name) : name_(std::move(name)) {
    descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail((flags & O_WRONLY) != 0 ? "cannot be made" : "cannot be opened");
  }
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  std::string read_all() const {
    std::string bytes;
    std::string piece(1 << 20, '\0');
    for (;;) {
      const auto count = ::read(descriptor_, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot be read");
      if (count == 0) return bytes;
      bytes.append(piece, 0, static_cast<size_t>(count));
    }
  }

  void write_all(std::string_view bytes) const {
    for (size_t done = 0; done < bytes.size();) {
      const auto count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot be written");
      done += static_cast<size_t>(count);
    }
  }

  /// Some file systems report a full disk only here.
  void flush_and_close() {
    if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail("cannot be written");
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) fail("cannot be written");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const int code = errno;
    throw std::runtime_error(name_.string() + ": " + what + ": " + std::strerror(code) +
                             (std::strcmp(what, "cannot be opened") == 0 ? "" : remedy(code)));
  }

  fs::path name_;
  int descriptor_ = -1;
};

}  // namespace

std::string read(const fs::path& file) { return Descriptor(file, O_RDONLY, file).read_all(); }

void write(const fs::path& file, const std::string& bytes) { write_pieces(file, {bytes}); }

void write_pieces(const fs::path& file, const std::vector<std::string_view>& pieces) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) throw std::runtime_error(file.string() + ": is a folder; name a file");
  // One name for all tries, so that what a killed program left is overwritten by the next.
  auto temporary = file;
  temporary += ".tmp";
  try {
    Descriptor target(temporary, O_WRONLY | O_CREAT | O_TRUNC, file);
    for (const auto piece : pieces) target.write_all(piece);
    target.flush_and_close();
    fs::rename(temporary, file);
  } catch (const std::exception&) {
    fs::remove(temporary, ignored);
    throw;
  }
  // The new name is safe once the folder is.
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  Descriptor(folder, O_RDONLY | O_DIRECTORY, folder).flush_and_close();
}

}  // namespace stiefel::files
