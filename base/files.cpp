#include "files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "printable.h"
#include "uninterrupted.h"

namespace stiefel::base {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSuffix = ".tmp";

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
    case ENXIO:
      return "; it is a fifo that no program reads: start the reader first";
    default:
      return "";
  }
}

/// What is wrong with `name`, by errno.
[[noreturn]] void fail(const fs::path& name, const std::string& what, bool with_remedy = true) {
  const int code = errno;
  throw std::runtime_error(base::printable(name) + ": " + what + ": " + std::strerror(code) +
                           (with_remedy ? remedy(code) : ""));
}

/// An open file that closes itself. `name` is what its errors speak of.
class Descriptor {
 public:
  Descriptor(int descriptor, fs::path name) : descriptor_(descriptor), name_(std::move(name)) {}
  Descriptor(Descriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  struct stat facts() const {
    struct stat facts {};
    if (::fstat(descriptor_, &facts) != 0) fail(name_, "cannot be opened", false);
    return facts;
  }

  std::string read_all() const {
    std::string bytes;
    std::string piece(1 << 20, '\0');
    for (;;) {
      const auto count = uninterrupted([&] { return ::read(descriptor_, piece.data(), piece.size()); });
      if (count < 0) fail(name_, "cannot be read");
      if (count == 0) return bytes;
      bytes.append(piece, 0, static_cast<size_t>(count));
    }
  }

  void write_all(const std::vector<std::string_view>& pieces) const {
    for (const auto bytes : pieces) {
      for (size_t done = 0; done < bytes.size();) {
        const auto count =
            uninterrupted([&] { return ::write(descriptor_, bytes.data() + done, bytes.size() - done); });
        if (count < 0) fail(name_, "cannot be written");
        done += static_cast<size_t>(count);
      }
    }
  }

  /// Makes reads and writes wait again after an open that did not.
  void wait() const { ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK); }

  /// Whether this process has the file to itself among those that ask; a file system without locks says yes.
  bool lock() const {
    return uninterrupted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0 ||
           errno != EWOULDBLOCK;
  }

  void empty() const {
    if (uninterrupted([&] { return ::ftruncate(descriptor_, 0); }) != 0) fail(name_, "cannot be written");
  }

  /// Some file systems report a full disk only here.
  void flush() const {
    if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0 && errno != EINVAL && errno != EROFS) {
      fail(name_, "cannot be written");
    }
  }
  void close() {
    if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail(name_, "cannot be written");
  }

 private:
  int descriptor_;
  fs::path name_;
};

/// Where a chain of symbolic links leads; the last need not exist.
fs::path follow(const fs::path& file) {
  auto place = file;
  constexpr int kMostLinks = 40;  // as the system's own limit
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code none;
    if (!fs::is_symlink(fs::symlink_status(place, none))) return place;
    place = place.parent_path() / fs::read_symlink(place);  // an absolute one stands alone
  }
  errno = ELOOP;
  fail(file, "cannot be written");
}

/// The descriptor of this process that a name such as /dev/stdout or /dev/fd/3 stands for. Such a name has no
/// place on the disk, and opening it again would not go on where its owner is.
std::optional<int> own_descriptor(const fs::path& file) {
  std::error_code none;
  const auto own = fs::canonical("/proc/self/fd", none);
  if (none) return std::nullopt;
  auto place = file;
  for (int i = 0; i < 2; ++i) {
    const auto folder = fs::canonical(place.parent_path(), none);
    const auto number = place.filename().string();
    const bool is_number =
        !number.empty() && number.size() < 10 && number.find_first_not_of("0123456789") == std::string::npos;
    if (!none && folder == own && is_number) return std::stoi(number);
    const auto link = fs::read_symlink(place, none);
    if (none) return std::nullopt;
    place = place.parent_path() / link;
  }
  return std::nullopt;
}

fs::path temporary_name(const fs::path& target, int number) {
  auto name = target;
  if (number > 0) name += "." + std::to_string(number);
  name += kSuffix;
  return name;
}

struct Temporary {
  fs::path path;
  Descriptor file;
};

/// The first temporary file that is free: a new one, or what a killed program left. One that another process
/// is writing is not, nor is a name that stands for something else (a folder, a link).
Temporary make_temporary(const fs::path& target, const fs::path& name) {
  constexpr int kMost = 100;
  for (int i = 0;; ++i) {
    auto path = temporary_name(target, i);
    const int opened = uninterrupted(
        [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666); });
    if (opened < 0) {
      struct stat there {};
      const int code = errno;
      const bool taken = ::lstat(path.c_str(), &there) == 0;
      errno = code;
      if (!taken || i == kMost) fail(name, "cannot be made");
      continue;
    }
    Descriptor file(opened, name);
    const auto facts = file.facts();
    struct stat named {};
    // Once it is locked it may no longer have its name: the process before us has finished with it.
    if (S_ISREG(facts.st_mode) && file.lock() && ::lstat(path.c_str(), &named) == 0 &&
        named.st_ino == facts.st_ino && named.st_dev == facts.st_dev) {
      file.wait();
      file.empty();
      return {std::move(path), std::move(file)};
    }
    if (i == kMost)
      throw std::runtime_error(base::printable(name) + ": cannot be made: " + base::printable(path) +
                               " is taken");
  }
}

void replace(const fs::path& target, const fs::path& name, const std::vector<std::string_view>& pieces) {
  auto temporary = make_temporary(target, name);
  try {
    temporary.file.write_all(pieces);
    temporary.file.flush();
    if (::rename(temporary.path.c_str(), target.c_str()) != 0) fail(name, "cannot be written");
  } catch (const std::exception&) {
    ::unlink(temporary.path.c_str());
    throw;
  }
  temporary.file.close();
  // The new name is safe once the folder is. One that may be written to and not read cannot be asked.
  const auto folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const int opened =
      uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (opened >= 0) Descriptor(opened, folder).flush();
}

void write_through(const fs::path& file, const std::vector<std::string_view>& pieces) {
  const auto own = own_descriptor(file);
  if (own) std::fflush(nullptr);  // what was printed before comes before
  // A fifo without a reader would be waited for without end.
  const int opened = uninterrupted([&] {
    return own ? ::fcntl(*own, F_DUPFD_CLOEXEC, 0)
               : ::open(file.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  });
  if (opened < 0) fail(file, "cannot be opened");
  Descriptor target(opened, file);
  if (!own) target.wait();
  target.write_all(pieces);
  target.close();
}

Descriptor open_to_read(const fs::path& file, int flags) {
  const int opened = uninterrupted([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC | flags); });
  if (opened < 0) fail(file, "cannot be opened", false);
  return {opened, file};
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a fifo";
  return "a device or a socket";
}

}  // namespace

std::string read_file(const fs::path& file) {
  const auto source = open_to_read(file, O_NONBLOCK | O_NOCTTY);
  const auto mode = source.facts().st_mode;
  if (!S_ISREG(mode)) {
    throw std::runtime_error(
        base::printable(file) + ": is " + kind_of(mode) +
        ", where a regular file should be; move it away, or restore the file from a copy");
  }
  return source.read_all();
}

std::string read_stream(const fs::path& file) { return open_to_read(file, 0).read_all(); }

void write_file(const fs::path& file, const std::string& bytes) { write_pieces(file, {bytes}); }

void write_pieces(const fs::path& file, const std::vector<std::string_view>& pieces) {
  struct stat facts {};
  const bool exists = ::stat(file.c_str(), &facts) == 0;
  if (exists && S_ISDIR(facts.st_mode))
    throw std::runtime_error(base::printable(file) + ": is a folder; name a file");
  if (own_descriptor(file) || (exists && !S_ISREG(facts.st_mode))) {
    write_through(file, pieces);
  } else {
    replace(follow(file), file, pieces);
  }
}

bool is_temporary(const fs::path& file, const std::string& name) {
  const auto text = file.filename().string();
  const std::string suffix = kSuffix;
  if (text.size() < name.size() + suffix.size() || text.compare(0, name.size(), name) != 0 ||
      text.compare(text.size() - suffix.size(), suffix.size(), suffix) != 0) {
    return false;
  }
  const auto between = text.substr(name.size(), text.size() - name.size() - suffix.size());
  return between.empty() || (between.size() > 1 && between[0] == '.' &&
                             between.find_first_not_of("0123456789", 1) == std::string::npos);
}

}  // namespace stiefel::base
