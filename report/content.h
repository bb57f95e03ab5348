#pragma once

#include <string>
#include <vector>

#include "report/charts.h"
#include "report/run_folder.h"
#include "report/summary.h"

namespace stiefel::report {

/// How many runs there are of the same method, which is to say of the same settings but for the seed.
struct Seeds {
  size_t most = 1;           ///< runs of the method that has most
  double spread = kMissing;  ///< the largest difference between last test errors of one method
};

/// The data of the page, which every section uses.
struct Content {
  explicit Content(const std::vector<RunFolder>& all);

  bool single() const { return runs.size() == 1; }

  /// The value that all runs share, or "".
  std::string common(std::string RunFolder::*value) const;

  /// The run with the least (or greatest) value; the number of runs where none has one.
  size_t extreme(double Summary::*value, bool greatest = false) const;

  const std::vector<RunFolder>& runs;
  std::vector<std::string> labels;
  std::vector<Summary> summaries;
  std::vector<Chart> charts;
  Seeds seeds;
};

// Pieces of HTML that several sections use.

/// "1 run", "2 runs".
std::string plural(size_t count, const std::string& noun);

/// A run's name with the sample of its line before it.
std::string run_name(const Content& content, size_t run);

std::string section(const std::string& id, const std::string& title, const std::string& body);

// The sections, each with its own source file.
std::string header_section(const Content& content);
std::string chart_section(const Content& content);
std::string certified_section(const Content& content);
std::string result_section(const Content& content);
std::string config_section(const Content& content);
std::string system_section(const Content& content);

/// The runs' values as JSON for page.js.
std::string chart_data(const Content& content);

}  // namespace stiefel::report
