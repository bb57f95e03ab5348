#include "unused_folder.h"

#include <algorithm>

#include "base/files.h"

namespace stiefel::train {

namespace fs = std::filesystem;

bool is_unused(const fs::path& folder) {
  return std::all_of(fs::directory_iterator(folder), fs::directory_iterator(),
                     [](const auto& entry) { return base::is_temporary(entry.path(), "config.toml"); });
}

}  // namespace stiefel::train
