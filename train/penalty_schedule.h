#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stiefel::train {

/// The weight of a soft penalty over the epochs: the first one until the schedule says otherwise.
class PenaltySchedule {
 public:
  /// `text` is EPOCH:WEIGHT,… with rising epochs, or empty. Throws std::invalid_argument naming the part that
  /// cannot be read.
  PenaltySchedule(double first, const std::string& text);

  double at(int64_t epoch) const;

 private:
  struct Change {
    double epoch;
    double weight;
  };
  std::vector<Change> changes_;
};

}  // namespace stiefel::train
