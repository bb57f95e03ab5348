#pragma once

#include <ATen/core/Tensor.h>

#include "train/tasks/task.h"

namespace stiefel::train {

/// What an epoch has shown so far, summed where the batches are, so that a step waits for nothing.
struct Tally {
  at::Tensor loss_sum;  ///< double, over the steps
  at::Tensor wrong;     ///< int64, wrong answers

  explicit Tally(const c10::Device& device);

  void reset(double losses = 0, int64_t wrongs = 0);

  /// Adds a batch's.
  void add(const Task& task, const at::Tensor& loss, const at::Tensor& scores, const at::Tensor& targets);
};

}  // namespace stiefel::train
