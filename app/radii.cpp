#include "radii.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "base/excerpt.h"
#include "base/numbers.h"

namespace stiefel::app {

std::vector<Radius> parse_radii(const std::vector<std::string>& words) {
  std::vector<Radius> radii;
  for (const auto& word : words) {
    const auto slash = word.find('/');
    double value = base::to_number(word.substr(0, slash));
    if (slash != std::string::npos) value /= base::to_number(word.substr(slash + 1));
    if (!(value > 0) || std::isinf(value)) {
      throw std::invalid_argument(
          fmt::format("a radius is '{}'; it must be above 0, a number or a fraction such as 36/255",
                      base::excerpt(word)));
    }
    radii.push_back({word, value});
  }
  return radii;
}

}  // namespace stiefel::app
