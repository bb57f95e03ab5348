#pragma once

#include <string>

#include "paper/experiment.h"

namespace stiefel::paper {

/// Training loss and test error by epoch, side by side on logarithmic axes, of the runs in one column of an
/// error table: one network, a curve per seed in its method's color. `data` is the set's name. Empty where
/// the column has nothing to draw.
std::string draw_curves(const Results& results, const std::string& column, const std::string& data);

}  // namespace stiefel::paper
