#pragma once

#include <string>

#include "paper/experiment.h"

namespace stiefel::paper {

/// One panel of a figure as an SVG file: the training loss on a logarithmic axis over the epochs or the
/// seconds, a curve per seed in its method's color. A file of its own has the paper's claim and the verdict
/// under it; a page that says both itself leaves them out. Empty where the panel has nothing to draw.
std::string draw_panel(const Results& results, const Verdict& verdict, const std::string& panel,
                       bool with_claim = true);

}  // namespace stiefel::paper
