#pragma once

#include <stiefel/schedules.h>

#include <cstdint>
#include <vector>

#include "methods.h"

namespace stiefel::train {

/// The schedule of the learning rates of a run: step decay or cosine, after a linear warm-up.
class LearningRates {
 public:
  LearningRates(const Config& config, const Optimizers& optimizers);

  /// Sets the optimisers' rates for a step of an epoch. They change within an epoch only where the cosine or
  /// a warm-up asks for it.
  void apply(Optimizers& optimizers, int64_t epoch, int64_t step, int64_t steps_per_epoch) const;

 private:
  bool within_epochs_;
  std::vector<Schedule> schedules_;  // one per optimiser
};

}  // namespace stiefel::train
