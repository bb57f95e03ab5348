#include "device_images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "permutation.h"
#if STIEFEL_HAS_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/gather_images.h"
#endif

namespace stiefel::data {

namespace {

/// The host's copy of a tensor, on its way to the device without waiting for the device.
at::Tensor sent(const at::Tensor& tensor, at::Device device) {
  if (!device.is_cuda()) return tensor.to(device);
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

/// Coordinates beyond the border mirrored at it (the border's own pixels are not repeated).
at::Tensor reflected(const at::Tensor& coordinates) {
  constexpr auto last = DeviceImages::kSide - 1;
  return last - (last - coordinates.abs()).abs();
}

/// Where each pixel of each variant comes from: (flip·9 + down)·9 + right, the shifts counted from 0.
at::Tensor places_of_variants() {
  constexpr auto side = DeviceImages::kSide, shift = DeviceImages::kShift, shifts = DeviceImages::kShifts;
  const auto along = at::arange(side, at::kLong);
  const auto shifted =
      reflected(along.view({1, side}) + at::arange(-shift, shift + 1, at::kLong).view({-1, 1}));
  const auto rows = shifted.view({1, shifts, 1, side, 1});
  // Flipped, column j comes from where 31 − j would.
  const auto columns = at::stack({shifted, shifted.flip(1)}).view({2, 1, shifts, 1, side});
  return (rows * side + columns).reshape({-1, side * side});
}

}  // namespace

Normalization normalization_of(const Images& images) {
  Normalization result;
  const auto values = at::arange(256, at::kDouble) / 255;
  for (int64_t channel = 0; channel < images.pixels.size(1); ++channel) {
    // There are only 256 different pixels: counting them is exact, and needs no copy in a wider type.
    const auto counts = at::bincount(images.pixels.select(1, channel).reshape(-1), {}, 256).to(at::kDouble);
    const auto share = counts / counts.sum();
    const auto mean = (share * values).sum().item<double>();
    const auto variance = (share * (values - mean).square()).sum().item<double>();
    result.mean.push_back(mean);
    // A channel that is the same everywhere becomes 0, not NaN.
    result.deviation.push_back(variance > 0 ? std::sqrt(variance) : 1);
  }
  return result;
}

double largest_factor(const Normalization& normalization) {
  return 1 / *std::min_element(normalization.deviation.begin(), normalization.deviation.end());
}

DeviceImages::DeviceImages(const Images& images, const Normalization& normalization, at::Device device,
                           at::MemoryFormat format)
    : format_(format) {
  const auto& pixels = images.pixels;
  TORCH_CHECK(pixels.dim() == 4 && pixels.scalar_type() == at::kByte,
              "DeviceImages: expected uint8 pixels of shape (N, channels, height, width)");
  const auto channels = pixels.size(1), height = pixels.size(2), width = pixels.size(3);
  TORCH_CHECK(height <= kSide && width <= kSide, "DeviceImages: images of ", height, "x", width,
              " are larger than ", kSide, "x", kSide);
  TORCH_CHECK(images.labels.dim() == 1 && images.labels.size(0) == pixels.size(0),
              "DeviceImages: ", pixels.size(0), " images but ", images.labels.sizes(), " labels");
  TORCH_CHECK(static_cast<int64_t>(normalization.mean.size()) == channels &&
                  static_cast<int64_t>(normalization.deviation.size()) == channels,
              "DeviceImages: images of ", channels, " channels but the mean of ", normalization.mean.size());
  TORCH_CHECK(format == at::MemoryFormat::Contiguous || format == at::MemoryFormat::ChannelsLast,
              "DeviceImages: the memory format must be contiguous or channels-last");

  const auto left = (kSide - width) / 2, top = (kSide - height) / 2;
  auto resident = pixels.to(device);
  if (height < kSide || width < kSide) {
    resident = at::constant_pad_nd(resident, {left, kSide - width - left, top, kSide - height - top});
  }
  pixels_ = resident.permute({0, 2, 3, 1}).contiguous().view({-1, kSide * kSide, channels});
  labels_ = images.labels.to(device, at::kLong);
  places_ = places_of_variants().to(device);

  const auto mean = at::tensor(normalization.mean, at::kDouble).view({1, -1, 1, 1});
  const auto deviation = at::tensor(normalization.deviation, at::kDouble).view({1, -1, 1, 1});
  // Written out for every pixel: in the channels-last format a product with three numbers is slow, one with a
  // whole image is not.
  const auto whole = [&](const at::Tensor& channel) {
    return channel.to(device, at::kFloat).expand({1, channels, kSide, kSide}).contiguous(format_);
  };
  channel_scale_ = (1 / (255 * deviation)).flatten().to(device, at::kFloat);
  channel_shift_ = (-mean / deviation).flatten().to(device, at::kFloat);
  scale_ = whole(1 / (255 * deviation));
  shift_ = whole(-mean / deviation);
}

at::Tensor DeviceImages::epoch_order(uint64_t seed, int64_t epoch) const {
  return permutation(size(), Stream(mix(seed, epoch, 0, Purpose::kOrder)));
}

at::Tensor DeviceImages::normalized(const at::Tensor& pixels) const {
  const auto square = pixels.view({-1, kSide, kSide, channels()});
  // With one channel both formats lie alike in memory, and the strides tell the convolutions which is meant.
  const bool as_it_lies = channels() == 1 && format_ == at::MemoryFormat::Contiguous;
  const auto planes = as_it_lies ? square.view({-1, 1, kSide, kSide}) : square.permute({0, 3, 1, 2});
  return planes.to(at::kFloat, /*non_blocking=*/false, /*copy=*/false, format_).mul_(scale_).add_(shift_);
}

at::Tensor DeviceImages::draw_variants(int64_t images, const Augment& augment, uint64_t seed, int64_t epoch,
                                       int64_t step) {
  if (!augment.flip && !augment.crop) return {};
  Stream stream(mix(seed, epoch, step, Purpose::kAugment));
  auto variants = at::empty({images}, at::kLong);
  auto* values = variants.data_ptr<int64_t>();
  for (int64_t i = 0; i < images; ++i) {
    // All three are drawn whatever is asked for, so that an image's crop does not depend on the choice of
    // flips.
    const auto flip = stream.below(2), down = stream.below(kShifts), right = stream.below(kShifts);
    const auto flipped = augment.flip ? flip : 0;
    values[i] = augment.crop ? (flipped * kShifts + down) * kShifts + right
                             : (flipped * kShifts + kShift) * kShifts + kShift;
  }
  return variants;
}

#if STIEFEL_HAS_CUDA
Batch DeviceImages::pick_by_kernel(const at::Tensor& indices, const at::Tensor& variants) const {
  TORCH_CHECK(indices.is_contiguous() && (!variants.defined() || variants.is_contiguous()),
              "DeviceImages: indices and variants must be contiguous");
  Batch batch{at::empty({indices.size(0), channels(), kSide, kSide}, scale_.options(), format_),
              at::empty_like(indices)};
  cuda::gather_images(
      {pixels_.data_ptr<uint8_t>(), labels_.data_ptr<int64_t>(), indices.data_ptr<int64_t>(),
       variants.defined() ? variants.data_ptr<int64_t>() : nullptr, places_.data_ptr<int64_t>(),
       channel_scale_.data_ptr<float>(), channel_shift_.data_ptr<float>(), indices.size(0),
       static_cast<int>(channels()), format_ == at::MemoryFormat::ChannelsLast,
       batch.images.data_ptr<float>(), batch.labels.data_ptr<int64_t>()},
      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return batch;
}
#endif

Batch DeviceImages::pick(const at::Tensor& indices, const at::Tensor& variants) const {
#if STIEFEL_HAS_CUDA
  if (device().is_cuda()) return pick_by_kernel(indices, variants);
#endif
  at::Tensor pixels;
  if (variants.defined()) {
    const auto from = places_.index_select(0, variants).add_((indices * (kSide * kSide)).unsqueeze(1));
    // (LibTorch picks single numbers faster than rows of one.)
    const auto table = channels() == 1 ? pixels_.view(-1) : pixels_.view({-1, channels()});
    pixels = table.index_select(0, from.view(-1));
  } else {
    pixels = pixels_.index_select(0, indices);
  }
  return {normalized(pixels), labels_.index_select(0, indices)};
}

Batch DeviceImages::batch(const at::Tensor& indices, const Augment& augment, uint64_t seed, int64_t epoch,
                          int64_t step) const {
  const auto variants = draw_variants(indices.size(0), augment, seed, epoch, step);
  return pick(indices.to(device()), variants.defined() ? sent(variants, device()) : variants);
}

Batch DeviceImages::range(int64_t from, int64_t to) const {
  return {normalized(pixels_.slice(0, from, to)), labels_.slice(0, from, to)};
}

Batch DeviceImages::raw_range(int64_t from, int64_t to) const {
  const auto pixels = pixels_.slice(0, from, to).view({-1, kSide, kSide, channels()});
  return {pixels.permute({0, 3, 1, 2}), labels_.slice(0, from, to)};
}

}  // namespace stiefel::data
