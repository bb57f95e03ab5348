#pragma once

#include <string>

#include "experiment.h"

namespace stiefel::paper {

/// One panel of a figure as an SVG file: the training loss on a logarithmic axis over the epochs or the
/// seconds, a curve a seed in its method's colour, with the paper's claim and the verdict under it. Empty
/// where no curve of the panel has two points to draw or one to mark.
std::string draw_panel(const Results& results, const Verdict& verdict, const std::string& panel);

}  // namespace stiefel::paper
