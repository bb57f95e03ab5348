#pragma once

#include "image_task.h"

namespace stiefel::train {

/// Classification of grey images that are read one pixel at a time, from 0 to 1, row by row or in a fixed
/// random order (`permuted`): sequences (N, 784, 1) for 28×28 images.
class PixelTask : public Task {
 public:
  PixelTask(const Config& config, const at::Device& device, const BatchShare& share = {});

  std::optional<data::Fingerprint> fingerprint() const override { return fingerprint_; }
  int64_t steps_per_epoch() const override { return train_.labels.size(0) / config_.batch; }
  void seek(int64_t epoch, int64_t step) override;
  TaskBatch next() override;
  int64_t size(Part part) const override;
  TaskBatch items(Part part, int64_t from, int64_t to) const override;

 private:
  /// Images as bytes on the device, (N, pixels), their pixels in the order in which they are read.
  struct Sequences {
    at::Tensor pixels;
    at::Tensor labels;
  };
  const Sequences& part_of(Part part) const { return part == Part::kTest ? test_ : validation_; }

  Config config_;
  BatchShare share_;
  data::Fingerprint fingerprint_;
  Sequences train_, validation_, test_;
  EpochTable table_;  // (steps, share): the sequences of each step that are ours
};

}  // namespace stiefel::train
