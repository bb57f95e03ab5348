#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/MemoryFormat.h>

#include <cstdint>
#include <vector>

#include "data/images.h"

namespace stiefel::data {

/// Mean and standard deviation of each channel, pixels counted from 0 to 1.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> deviation;
};

/// Those of these images: take the training set's for the test set too.
Normalization normalization_of(const Images& images);

/// By how much it stretches differences at most: 1 over the smallest standard deviation.
double largest_factor(const Normalization& normalization);

struct Augment {
  bool flip = false;  ///< left and right exchanged, for half of the images
  bool crop = false;  ///< shifted by −4 to 4 pixels each way, the border filled by reflection
};

struct Batch {
  at::Tensor images;  ///< float (N, channels, 32, 32), normalised
  at::Tensor labels;  ///< int64 (N)
};

/// A data set that lies, a byte a pixel, on the device that trains. Batches are picked, augmented and
/// normalised there. Images smaller than 32×32 are padded with black (pixel 0), evenly on all sides.
///
/// Order and augmentation are pure functions of (seed, epoch, step) and the same on every device.
class DeviceImages {
 public:
  static constexpr int64_t kSide = 32;
  static constexpr int64_t kShift = 4;
  static constexpr int64_t kShifts = 2 * kShift + 1;           ///< −4 … 4
  static constexpr int64_t kVariants = 2 * kShifts * kShifts;  ///< flipped or not, down, right

  DeviceImages(const Images& images, const Normalization& normalization, at::Device device,
               at::MemoryFormat format = at::MemoryFormat::Contiguous);

  int64_t size() const { return labels_.size(0); }
  int64_t channels() const { return pixels_.size(2); }
  at::Device device() const { return labels_.device(); }

  /// The order of an epoch: a random permutation, int64, on the CPU.
  at::Tensor epoch_order(uint64_t seed, int64_t epoch) const;

  /// The images of these indices, augmented as belongs to that step.
  Batch batch(const at::Tensor& indices, const Augment& augment, uint64_t seed, int64_t epoch,
              int64_t step) const;

  /// The two halves of batch(). First the host's, drawn for the images of a step: a number below kVariants
  /// each, which says how it is flipped and shifted; int64, on the CPU. Undefined where nothing is augmented.
  static at::Tensor draw_variants(int64_t images, const Augment& augment, uint64_t seed, int64_t epoch,
                                  int64_t step);
  /// Then the device's: the images of these indices in these variants, both on the device (or without
  /// variants, as they are). It asks nothing of the host.
  Batch pick(const at::Tensor& indices, const at::Tensor& variants) const;

  /// Images `from` up to `to`, as they are: what evaluation wants.
  Batch range(int64_t from, int64_t to) const;

  /// The same before they are normalised: uint8, with the border.
  Batch raw_range(int64_t from, int64_t to) const;

 private:
  at::Tensor normalized(const at::Tensor& pixels) const;
  Batch pick_by_kernel(const at::Tensor& indices, const at::Tensor& variants) const;

  at::Tensor pixels_;  // uint8 (N, 32·32, channels): a pixel's channels side by side
  at::Tensor labels_;
  at::Tensor places_;  // int64 (kVariants, 32·32): where in an image each pixel of a variant comes from
  at::Tensor scale_, shift_;  // float (1, channels, 32, 32): normalised = scale·pixel + shift
  at::Tensor channel_scale_, channel_shift_;  // the same, (channels)
  at::MemoryFormat format_;
};

}  // namespace stiefel::data
