#include "report/write.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "report/page.h"

namespace stiefel::report {

namespace {

namespace fs = std::filesystem;

/// A file that is removed again unless it was given its final name.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target)
      : target_(target), name_(target.string() + ".tmp." + std::to_string(::getpid())) {
    descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot be made", errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  void write(const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const ssize_t wrote = ::write(descriptor_, text.data() + done, text.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) fail("cannot be written", errno);
      done += static_cast<size_t>(wrote);
    }
  }

  void publish() {
    // Some file systems report a full disk only now.
    if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail("cannot be written", errno);
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) fail("cannot be written", errno);
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail("cannot be put in place", errno);
    name_.clear();
  }

 private:
  [[noreturn]] void fail(const std::string& what, int code) const {
    std::string remedy;
    if (code == ENOSPC || code == EDQUOT || code == EFBIG)
      remedy = "; free some space or choose another place with -o";
    if (code == EACCES || code == EPERM || code == EROFS) remedy = "; choose a folder that you may write to";
    if (code == ENOENT) remedy = "; make its folder first";
    throw std::runtime_error(target_.string() + ": " + what + ": " + std::strerror(code) + remedy);
  }

  fs::path target_;
  std::string name_;
  int descriptor_ = -1;
};

}  // namespace

void write_atomically(const std::string& text, const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    throw std::runtime_error(file.string() + ": is a folder; name a file, for example " +
                             (file / "report.html").string());
  }
  TemporaryFile temporary(file);
  temporary.write(text);
  temporary.publish();
}

void write_report(const std::vector<RunFolder>& runs, const fs::path& file) {
  write_atomically(render(runs), file);
}

}  // namespace stiefel::report
