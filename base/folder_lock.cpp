#include "folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "printable.h"
#include "uninterrupted.h"

namespace stiefel::base {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); })) {
  if (descriptor_ < 0) {
    throw std::runtime_error(base::printable(folder) + ": cannot be opened: " + std::strerror(errno));
  }
}

std::optional<FolderLock> FolderLock::try_take(const std::filesystem::path& folder) {
  FolderLock lock(folder);
  const int taken = uninterrupted([&] { return ::flock(lock.descriptor_, LOCK_EX | LOCK_NB); });
  if (taken != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return lock;
}

FolderLock FolderLock::take(const std::filesystem::path& folder) {
  FolderLock lock(folder);
  uninterrupted([&] { return ::flock(lock.descriptor_, LOCK_EX); });
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace stiefel::base
