#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace stiefel::paper {

/// A document about all runs and stored computations of a folder.
struct Document {
  std::string markdown;  ///< links are relative to the folder that OUT lies in
  std::vector<std::pair<std::filesystem::path, std::string>> drawings;  ///< SVG files, under OUT
  std::vector<std::string> complaints;  ///< a line for each folder or file that could not be read
};

/// Every experiment of which the full or short runs in OUT fill a cell, or of which a computation at those
/// scales was kept there: its table without the rows and columns that are empty throughout, its claim and the
/// verdict, curves, and a row for every run. Stand-ins (smoke) never count, and nothing is computed. The same
/// folder gives the same bytes on every machine; `out` is written as it is given. Throws std::runtime_error
/// where there is neither a finished run nor anything kept.
Document make_document(const std::filesystem::path& out);

}  // namespace stiefel::paper
