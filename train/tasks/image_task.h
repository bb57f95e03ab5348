#pragma once

#include <optional>

#include "data/dataset.h"
#include "data/device_images.h"
#include "epoch_table.h"
#include "task.h"
#include "train/classification_loss.h"

namespace stiefel::train {

/// A data set's images divided as a run divides them.
struct Parts {
  data::Images train;
  data::Images validation;  ///< empty where none is set aside
  data::Images test;
};

/// Throws std::invalid_argument where more images are to be set aside than there are, or where what is left
/// does not fill a batch.
Parts divide(const data::Dataset& dataset, const Config& config);

/// Classification of whole images, augmented and normalised on the device.
class ImageTask : public Task {
 public:
  ImageTask(const Config& config, const at::Device& device, const BatchShare& share = {});

  std::optional<data::Fingerprint> fingerprint() const override { return fingerprint_; }
  int64_t steps_per_epoch() const override { return train_.size() / config_.batch; }
  void seek(int64_t epoch, int64_t step) override;
  TaskBatch next() override;
  int64_t size(Part part) const override;
  TaskBatch items(Part part, int64_t from, int64_t to) const override;
  at::Tensor loss(const at::Tensor& scores, const at::Tensor& targets) const override;

  /// The same images before they are normalised: uint8 (N, channels, 32, 32).
  TaskBatch raw_items(Part part, int64_t from, int64_t to) const;

  /// How they are normalised.
  const data::Normalization& normalization() const { return normalization_; }

 private:
  const data::DeviceImages& images_of(Part part) const;
  ImageTask(const Config& config, const at::Device& device, const BatchShare& share,
            const data::Dataset& dataset);
  ImageTask(const Config& config, const at::Device& device, const BatchShare& share, const Parts& parts,
            const data::Normalization& normalization);

  Config config_;
  BatchShare share_;
  data::Fingerprint fingerprint_;
  data::Normalization normalization_;
  ClassificationLoss loss_;
  data::DeviceImages train_;
  data::DeviceImages test_;
  std::optional<data::DeviceImages> validation_;
  EpochTable table_;  // (steps, 1 or 2, share): the images of each step that are ours and, where augmented,
                      // their variants
};

}  // namespace stiefel::train
