#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "world.h"

namespace stiefel::distributed {

/// Averages the gradients of parameters over all ranks, most of it while the backward pass still goes on.
/// Gradients are collected in buckets, contiguous buffers of some 25 MB, in the reverse order of the
/// parameters, which is about the order in which a backward pass makes them. A bucket's all-reduce starts
/// when its last gradient is there and those of all buckets before it have started, so that the order is the
/// same on every rank; finish() waits for them and hands the averages back.
///
/// Every rank has the same parameters and computes the same graph. Which of the parameters have gradients is
/// settled in the first step: those of no rank are left alone, and where only some ranks have one the others'
/// count as zero. On a GPU a step waits for nothing on the host from the second one on, if the all-reduce
/// does not, so it can be captured into a CUDA graph.
class GradientBuckets {
 public:
  static constexpr int64_t kBytes = 25 * 1024 * 1024;

  GradientBuckets(std::shared_ptr<World> world, const std::vector<at::Tensor>& parameters,
                  int64_t bytes = kBytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Before the backward pass of a step, on the stream of the forward pass.
  void begin();

  /// After it: every gradient is the mean of those of all ranks.
  void finish();

  size_t count() const;
  /// What a step sends through the all-reduces, in bytes of one rank's gradients.
  int64_t bytes() const;

 private:
  class Hook;
  struct Slot;
  struct Bucket;

  void attach();
  void collect(size_t slot);
  void start_full_ones();
  void settle_participants();
  void hand_back(Bucket& bucket);

  std::shared_ptr<World> world_;
  std::vector<Slot> slots_;      // in the order of the buckets
  std::vector<Bucket> buckets_;  // in the order in which their all-reduces start
  size_t started_ = 0;           // how many have, in this step
  bool open_ = false;            // between begin() and finish()
  bool settled_ = false;         // whether participants are
};

}  // namespace stiefel::distributed
