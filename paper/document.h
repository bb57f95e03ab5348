#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace stiefel::paper {

/// All that the runs in a folder say, for people to read.
struct Document {
  std::string markdown;  ///< links are relative to the folder that OUT lies in
  std::vector<std::pair<std::filesystem::path, std::string>> drawings;  ///< SVG files, under OUT
  std::vector<std::string> complaints;  ///< a line for each folder that could not be read
};

/// Every experiment of which the full or short runs in OUT fill a cell: its table without the rows and
/// columns that are empty throughout, its claim and the verdict, curves, and a row for every run. Stand-ins
/// (smoke) never count, and nothing is computed. The same runs give the same bytes on every machine; `out` is
/// written as it is given. Throws std::runtime_error where there is no finished run.
Document make_document(const std::filesystem::path& out);

}  // namespace stiefel::paper
