#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run_record.h"
#include "run_spec.h"

namespace stiefel::paper {

/// The runs in a folder, OUT/SCALE: those made here and those copied in from elsewhere, as folders or as kept
/// runs' files, whatever these are called. A run is what its config says it is.
class RunStore {
 public:
  RunStore(const std::filesystem::path& out, Scale scale);

  /// The run of this recipe: a finished one where there is any, else the one in the folder of its own name,
  /// else one that was interrupted. Null where there is none.
  const RunRecord* find(const RunSpec& spec) const;

  const std::vector<RunRecord>& records() const { return records_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// A line for each folder or file that could not be read.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  std::filesystem::path folder_;
  std::vector<RunRecord> records_;
  std::vector<std::string> complaints_;
};

/// Whether a record is of this run.
bool matches(const RunRecord& record, const RunSpec& spec);

}  // namespace stiefel::paper
