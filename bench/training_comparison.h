#pragma once

#include <functional>
#include <string>
#include <vector>

#include "contenders.h"
#include "row.h"

namespace stiefel::bench {

/// How whole training steps are timed.
struct TrainingPlan {
  int64_t steps = 20;  ///< timed in each round
  int64_t rounds = 1;
};

/// Times whole training steps of each contender after those to warm up. With one round methods come one after
/// the other, each with the memory to itself; with several, all are in memory and every round takes them in
/// another random order, so that ratios are less affected by what else the machine does. On a GPU the steps
/// are replays of the trainer's graph, where it has one. A method that fails has a row that says why, as in
/// compare_steps.
std::vector<Row> compare_training(const std::vector<Contender>& contenders, const record::Config& base,
                                  const TrainingPlan& plan,
                                  const std::function<void(const std::string&)>& progress);

}  // namespace stiefel::bench
