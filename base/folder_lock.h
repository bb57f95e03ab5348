#pragma once

#include <filesystem>
#include <optional>

namespace stiefel::base {

/// An advisory lock on a folder: one process at a time holds it. The system releases it when the process
/// ends, however it ends, so that no stale lock remains.
class FolderLock {
 public:
  /// Empty where another process holds the lock. Throws std::runtime_error where it cannot be opened. On a
  /// file system without locks every process gets one.
  static std::optional<FolderLock> try_take(const std::filesystem::path& folder);

  /// Waits until no other process holds the lock.
  static FolderLock take(const std::filesystem::path& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(const std::filesystem::path& folder);
  int descriptor_;
};

}  // namespace stiefel::base
