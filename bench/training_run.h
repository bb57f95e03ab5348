#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "record/config.h"

namespace stiefel::bench {

/// Whole training steps of one method.
class TrainingRun {
 public:
  virtual ~TrainingRun() = default;

  /// Takes steps and returns the seconds of each; a GPU's in blocks, whose mean stands for each step.
  virtual std::vector<double> time_steps(int64_t count) = 0;

  /// The steps to take before those that are timed.
  virtual int64_t warm_up_steps() const = 0;

  /// ‖XᴴX − I‖_F of every constrained weight.
  virtual std::vector<double> defects() const { return {}; }

  /// 0 where it reads no data set.
  virtual int64_t steps_per_epoch() const { return 0; }

  /// Whether a CUDA graph was asked for and could not be captured.
  virtual bool lacks_graph() const { return false; }
};

/// The trainer's own steps. Resolves the config.
std::unique_ptr<TrainingRun> trainer_run(record::Config config);

/// The shortest training loop that LibTorch allows, with torch::optim::SGD: the same network, batch size and
/// memory layout on one fixed random batch, without augmentation, metrics or a CUDA graph. What the trainer
/// adds is measured against it.
std::unique_ptr<TrainingRun> plain_loop_run(record::Config config);

}  // namespace stiefel::bench
