#include "scale.h"

#include <fmt/format.h>

#include <stdexcept>

namespace stiefel::paper {

std::string to_string(Scale scale) {
  switch (scale) {
    case Scale::kSmoke:
      return "smoke";
    case Scale::kShort:
      return "short";
    case Scale::kFull:
      break;
  }
  return "full";
}

const std::vector<Scale>& scales() {
  static const std::vector<Scale> all{Scale::kSmoke, Scale::kShort, Scale::kFull};
  return all;
}

Scale scale_from_string(const std::string& name) {
  for (const auto scale : scales()) {
    if (to_string(scale) == name) return scale;
  }
  throw std::invalid_argument(fmt::format("--scale is '{}'; it must be smoke, short or full", name));
}

std::string mark(Scale scale) {
  switch (scale) {
    case Scale::kSmoke:
      return "smoke: stand-in network and a little data, one epoch; these are not the paper's experiments";
    case Scale::kShort:
      return "short: a tenth of the full epochs or iterations, with the schedule scaled";
    case Scale::kFull:
      break;
  }
  return "";
}

}  // namespace stiefel::paper
