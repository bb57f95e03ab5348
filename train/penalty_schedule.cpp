#include "penalty_schedule.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "base/numbers.h"
#include "base/printable.h"

namespace stiefel::train {

namespace {

/// The number that is the whole text, or NaN.
double number(const std::string& text) {
  try {
    return base::to_number(text);
  } catch (const std::invalid_argument&) {
    return std::nan("");
  }
}

}  // namespace

PenaltySchedule::PenaltySchedule(double first, const std::string& text) : changes_{{0, first}} {
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto colon = part.find(':');
    const double epoch = number(part.substr(0, colon));
    const double weight = colon == std::string::npos ? std::nan("") : number(part.substr(colon + 1));
    const bool in_order = changes_.size() == 1 ? epoch >= 0 : epoch > changes_.back().epoch;
    if (!(in_order && weight >= 0 && std::isfinite(weight) && std::isfinite(epoch))) {
      throw std::invalid_argument(fmt::format(
          "--penalty-schedule holds '{}'; it must be EPOCH:WEIGHT,… with rising epochs and finite "
          "weights of 0 or more (20:1e-3,50:1e-4)",
          base::printable(part)));
    }
    changes_.push_back({epoch, weight});
  }
}

double PenaltySchedule::at(int64_t epoch) const {
  double weight = changes_.front().weight;
  for (const auto& change : changes_) {
    if (static_cast<double>(epoch) >= change.epoch) weight = change.weight;
  }
  return weight;
}

}  // namespace stiefel::train
