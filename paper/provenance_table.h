#pragma once

#include <string>
#include <vector>

#include "run_record.h"

/// Where runs come from, as rows of a table: the same in every document.
namespace stiefel::paper {

struct ProvenanceColumn {
  std::string title;
  bool number;  ///< set to the right
};
const std::vector<ProvenanceColumn>& provenance_columns();

/// A finished run's row. The error is the last epoch's, never the best one's; what a run does not have is
/// empty.
std::vector<std::string> provenance_row(const RunRecord& record);

}  // namespace stiefel::paper
