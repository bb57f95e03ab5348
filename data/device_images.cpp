#include "device_images.h"

#include <ATen/ATen.h>

#include <cmath>

#include "permutation.h"

namespace stiefel::data {

namespace {

/// The host's copy of a tensor, on its way to the device without waiting for the device.
at::Tensor sent(const at::Tensor& tensor, at::Device device) {
  if (!device.is_cuda()) return tensor.to(device);
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

/// Rows: whether each image is flipped (0 or 1), its shift down, its shift right (−4 … 4).
at::Tensor draws_for(int64_t images, const Augment& augment, Stream stream) {
  auto draws = at::zeros({3, images}, at::kLong);
  auto values = draws.accessor<int64_t, 2>();
  constexpr auto most = DeviceImages::kShift;
  for (int64_t i = 0; i < images; ++i) {
    // All three are drawn whatever is asked for, so that an image's crop does not depend on the choice of
    // flips.
    const auto flip = stream.below(2), down = stream.below(2 * most + 1), right = stream.below(2 * most + 1);
    if (augment.flip) values[0][i] = flip;
    if (augment.crop) values[1][i] = down - most;
    if (augment.crop) values[2][i] = right - most;
  }
  return draws;
}

/// Coordinates beyond the border mirrored at it (the border's own pixels are not repeated).
at::Tensor reflected(const at::Tensor& coordinates) {
  constexpr auto last = DeviceImages::kSide - 1;
  return last - (last - coordinates.abs()).abs();
}

}  // namespace

Normalisation normalisation_of(const Images& images) {
  Normalisation result;
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

DeviceImages::DeviceImages(const Images& images, const Normalisation& normalisation, at::Device device,
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
  TORCH_CHECK(static_cast<int64_t>(normalisation.mean.size()) == channels &&
                  static_cast<int64_t>(normalisation.deviation.size()) == channels,
              "DeviceImages: images of ", channels, " channels but the mean of ", normalisation.mean.size());
  TORCH_CHECK(format == at::MemoryFormat::Contiguous || format == at::MemoryFormat::ChannelsLast,
              "DeviceImages: the memory format must be contiguous or channels-last");

  const auto left = (kSide - width) / 2, top = (kSide - height) / 2;
  auto resident = pixels.to(device);
  if (height < kSide || width < kSide) {
    resident = at::constant_pad_nd(resident, {left, kSide - width - left, top, kSide - height - top});
  }
  pixels_ = resident.permute({0, 2, 3, 1}).contiguous().view({-1, kSide * kSide, channels});
  labels_ = images.labels.to(device, at::kLong);

  const auto mean = at::tensor(normalisation.mean, at::kDouble).view({1, -1, 1, 1});
  const auto deviation = at::tensor(normalisation.deviation, at::kDouble).view({1, -1, 1, 1});
  // Written out for every pixel: in the channels-last format a product with three numbers is slow, one with a
  // whole image is not.
  const auto whole = [&](const at::Tensor& channel) {
    return channel.to(device, at::kFloat).expand({1, channels, kSide, kSide}).contiguous(format_);
  };
  scale_ = whole(1 / (255 * deviation));
  shift_ = whole(-mean / deviation);
}

at::Tensor DeviceImages::epoch_order(uint64_t seed, int64_t epoch) const {
  return sent(permutation(size(), Stream(mix(seed, epoch, 0, Purpose::kOrder))), device());
}

at::Tensor DeviceImages::normalised(const at::Tensor& pixels) const {
  const auto square = pixels.view({-1, kSide, kSide, channels()});
  // With one channel both formats lie alike in memory, and the strides tell the convolutions which is meant.
  const bool as_it_lies = channels() == 1 && format_ == at::MemoryFormat::Contiguous;
  const auto planes = as_it_lies ? square.view({-1, 1, kSide, kSide}) : square.permute({0, 3, 1, 2});
  return planes.to(at::kFloat, /*non_blocking=*/false, /*copy=*/false, format_).mul_(scale_).add_(shift_);
}

at::Tensor DeviceImages::places(const at::Tensor& draws, const Augment& augment) const {
  const auto along = at::arange(kSide, draws.options()).unsqueeze(0);
  const auto flip = draws[0].unsqueeze(1), down = draws[1].unsqueeze(1), right = draws[2].unsqueeze(1);
  auto rows = along, columns = along;
  if (augment.flip) columns = (columns - flip * (kSide - 1)).abs();  // j, or 31 − j
  if (augment.crop) {
    rows = reflected(rows + down);
    columns = reflected(columns + right);
  }
  return (rows * kSide).unsqueeze(2) + columns.unsqueeze(1);
}

Batch DeviceImages::batch(const at::Tensor& indices, const Augment& augment, uint64_t seed, int64_t epoch,
                          int64_t step) const {
  const auto pick = indices.to(device());
  at::Tensor pixels;
  if (augment.flip || augment.crop) {
    const Stream stream(mix(seed, epoch, step, Purpose::kAugment));
    const auto draws = sent(draws_for(pick.size(0), augment, stream), device());
    const auto from = (pick * (kSide * kSide)).view({-1, 1, 1}) + places(draws, augment);
    // (LibTorch picks single numbers faster than rows of one.)
    const auto table = channels() == 1 ? pixels_.view(-1) : pixels_.view({-1, channels()});
    pixels = table.index_select(0, from.view(-1));
  } else {
    pixels = pixels_.index_select(0, pick);
  }
  return {normalised(pixels), labels_.index_select(0, pick)};
}

Batch DeviceImages::range(int64_t from, int64_t to) const {
  return {normalised(pixels_.slice(0, from, to)), labels_.slice(0, from, to)};
}

}  // namespace stiefel::data
