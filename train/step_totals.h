#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>

#include "distributed/world.h"
#include "tally.h"
#include "train/tasks/task.h"

namespace stiefel::train {

/// What processes that train together tell each other in every step beside their gradients: the loss and the
/// wrong answers of their part of the batch, and whether they were asked to stop. One all-reduce of three
/// numbers, under way while the backward pass runs. Nothing of it waits for the host, so it can be captured.
class StepTotals {
 public:
  StepTotals(std::shared_ptr<distributed::World> world, const c10::Device& device);

  /// Tells the other ranks in the next step that this one was asked to stop.
  void ask_to_stop();

  /// Sends what this rank's part of the batch has shown.
  void start(const Task& task, const at::Tensor& loss, const at::Tensor& scores, const at::Tensor& targets);

  /// Adds the whole batch's to a tally.
  void finish(Tally& tally);

  /// Whether some rank was asked to stop before the last step; alike on all ranks. Waits for the device.
  bool asked_to_stop() const;

 private:
  std::shared_ptr<distributed::World> world_;
  Tally own_;           // of this rank's part
  at::Tensor asks_;     // double: 1 where this rank was asked to stop
  at::Tensor numbers_;  // double (3): loss, wrong answers, how many ranks were asked to stop
  std::unique_ptr<distributed::Pending> sum_;
};

}  // namespace stiefel::train
