#pragma once

#include <filesystem>
#include <optional>

namespace stiefel::base {

/// A folder that this process has to itself among those that ask. The system lets go of it when the process
/// ends, however it ends, so nothing is ever left behind.
class FolderLock {
 public:
  /// Empty where another process has the folder. Throws std::runtime_error where it cannot be opened. A file
  /// system that knows no locks lets everybody in.
  static std::optional<FolderLock> try_take(const std::filesystem::path& folder);

  /// Waits for its turn.
  static FolderLock take(const std::filesystem::path& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(const std::filesystem::path& folder);
  int descriptor_;
};

}  // namespace stiefel::base
