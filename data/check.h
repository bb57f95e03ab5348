#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "data/catalog.h"

namespace stiefel::data {

struct CheckedFile {
  std::filesystem::path file;
  int64_t count = 0;    ///< images or labels
  std::string md5;      ///< of the uncompressed bytes
  std::string problem;  ///< empty where all is as it should be
};

struct CheckReport {
  std::string name;
  std::filesystem::path where;
  std::vector<CheckedFile> files;

  bool ok() const;
};

/// A line a file.
std::ostream& operator<<(std::ostream& out, const CheckReport& report);

/// Whether a data set is the published one, byte for byte: looks where `load` does, reads every file, counts
/// what is in it and compares its MD5 sum. Throws only where the set is not found at all.
CheckReport check(const std::string& name, const std::filesystem::path& data_dir = {});

/// The same of the files in one folder.
CheckReport check(const SetFacts& facts, const std::filesystem::path& folder);

}  // namespace stiefel::data
