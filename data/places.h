#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/catalog.h"

// Where data sets are looked for.

namespace stiefel::data {

/// What the help says of --data-dir wherever there is one.
inline constexpr const char* kDataDirHelp =
    "the only folder to look for data in (default: $STIEFEL_DATA, or else the cache and the system's)";

/// A folder in which a data set, or a part of it, was found.
struct Found {
  std::string name;
  std::filesystem::path where;       ///< empty where no place has any of it
  std::vector<std::string> missing;  ///< the files that should be there and are not
  bool used = false;                 ///< `load` takes this one: the first that is complete

  bool complete() const { return !where.empty() && missing.empty(); }
};

/// $XDG_CACHE_HOME/stiefel, or ~/.cache/stiefel; empty where neither variable is set.
std::filesystem::path cache_folder();

/// Where Debian's packages install data sets.
std::filesystem::path system_folder();

/// The folder that the user named: `data_dir`, or else $STIEFEL_DATA; empty where neither is given.
std::filesystem::path named_folder(const std::filesystem::path& data_dir);

/// The places in the order in which they are searched. A named folder is the only one: a set that is
/// incomplete there must not be replaced by another copy without a word. Otherwise the cache, then the
/// system's folder. Throws std::runtime_error where the named folder is no folder.
std::vector<std::filesystem::path> places(const std::filesystem::path& data_dir);

/// Every folder that holds the set or a part of it, in that order. In each place it is looked for in a folder
/// of its own name; in a named folder itself as well, unless its files' names are those of several sets.
std::vector<Found> find(const SetFacts& facts, const std::filesystem::path& data_dir);

/// The first of these that is complete. Throws std::runtime_error with the places looked at, what each lacks,
/// and the remedy where there is none.
std::filesystem::path locate(const SetFacts& facts, const std::filesystem::path& data_dir);

/// How to get the set where the files found will not do: `stiefel data get`, and that a named folder must
/// then no longer be given.
std::string fetch_remedy(const SetFacts& facts, const std::filesystem::path& data_dir);

/// What was found of every data set; one that is nowhere has one entry, with no place.
std::vector<Found> list(const std::filesystem::path& data_dir = {});

}  // namespace stiefel::data
