#pragma once

#include <string>
#include <vector>

#include "report/run_folder.h"

namespace stiefel::report {

/// The report of one or more runs: one HTML page that needs nothing beside it, with its style, its scripts
/// and the runs' values inside. Throws std::runtime_error where there is no run.
std::string render(const std::vector<RunFolder>& runs);

/// What a page that is about more than its runs says above and below their curves.
struct Frame {
  std::string kind;     ///< what the page is, after the program's name
  std::string title;    ///< of the page and of its tab
  std::string header;   ///< HTML under the title
  std::string above;    ///< HTML: sections before the curves
  std::string below;    ///< HTML: sections after them
  std::string command;  ///< what made it
};

/// The same kind of page with the runs' curves, configurations and systems inside the frame. There may be no
/// run; then it has no script either.
std::string render(const Frame& frame, const std::vector<RunFolder>& runs);

}  // namespace stiefel::report
