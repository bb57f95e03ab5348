#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/catalogue.h"

// Where data sets are looked for.

namespace stiefel::data {

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

/// The places in the order in which they are looked at: `data_dir` (may be empty), $STIEFEL_DATA, the cache,
/// the system's. Throws std::runtime_error where `data_dir` is named and is no folder.
std::vector<std::filesystem::path> places(const std::filesystem::path& data_dir);

/// Every folder that holds the set or a part of it, in that order. In each place it is looked for in a folder
/// of its own name; in `data_dir` itself as well, unless its files' names are those of several sets.
std::vector<Found> find(const SetFacts& facts, const std::filesystem::path& data_dir);

/// The first of these that is complete. Throws std::runtime_error with the places looked at, what each lacks,
/// and the remedy where there is none.
std::filesystem::path locate(const SetFacts& facts, const std::filesystem::path& data_dir);

/// What was found of every data set; one that is nowhere has one entry, with no place.
std::vector<Found> list(const std::filesystem::path& data_dir = {});

}  // namespace stiefel::data
