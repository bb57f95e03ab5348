#pragma once

#include <string>
#include <vector>

namespace stiefel::app {

/// The length of a perturbation, as it was written and as a number.
struct Radius {
  std::string text;
  double value;
};

/// Reads numbers and fractions, such as 0.1 and 36/255. Throws std::invalid_argument naming what is neither,
/// or is not above 0.
std::vector<Radius> parse_radii(const std::vector<std::string>& words);

}  // namespace stiefel::app
