#pragma once

#include <string>
#include <vector>

#include "paper/experiment.h"
#include "paper/jobs/run_record.h"

/// Where numbers come from: runs as rows of a table, computations as a line; the same in every document.
namespace stiefel::paper {

struct ProvenanceColumn {
  std::string title;
  bool number;  ///< set to the right
};
const std::vector<ProvenanceColumn>& provenance_columns();

/// A finished run's row. The error is the last epoch's, never the best one's; what a run does not have is
/// empty.
std::vector<std::string> provenance_row(const RunRecord& record);

/// The processor, LibTorch and precision that a number's origin names, in a few words; empty where it names
/// none.
std::string machine_of(const nlohmann::json& origin);

/// Of results that were computed without runs: seeds, device, precision, LibTorch, commit and date, as one
/// line. Where cells were computed by different machines or builds, as the first was.
std::string computed_line(const Results& computed);

}  // namespace stiefel::paper
