#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/printable.h"

namespace stiefel::record {

/// A file of a run's folder that cannot be read as what it is: says which file, what is wrong with it and
/// what to do.
struct DamagedRun : std::runtime_error {
  DamagedRun(const std::filesystem::path& file, const std::string& what)
      : std::runtime_error(base::printable(file) + ": " + what +
                           "; restore the file from a copy, or move the run away") {}
};

}  // namespace stiefel::record
