#include "pixel_task.h"

#include <fmt/format.h>

#include <stdexcept>

#include "data/permutation.h"
#include "data/seeds.h"

namespace stiefel::train {

namespace {

// One order for all runs, or their errors could not be compared.
constexpr uint64_t kPermutationSeed = 1;

/// Bytes (N, pixels) as sequences of numbers from 0 to 1.
at::Tensor sequences(const at::Tensor& bytes) { return bytes.to(at::kFloat).div_(255).unsqueeze(-1); }

}  // namespace

PixelTask::PixelTask(const Config& config, const at::Device& device, const BatchShare& share)
    : config_(config), share_(share), table_(device) {
  const auto dataset = data::load(config.data, config.data_dir);
  if (dataset.train.pixels.size(1) != 1) {
    throw std::invalid_argument(fmt::format(
        "--task pixel reads grey images; {} has colours (use mnist or fashion-mnist)", config.data));
  }
  fingerprint_ = data::fingerprint_of(dataset);
  const auto parts = divide(dataset, config);
  const int64_t pixels = dataset.train.pixels.size(2) * dataset.train.pixels.size(3);
  const auto order =
      data::permutation(pixels, data::Stream(data::mix(kPermutationSeed, 0, 0, data::Purpose::kPixelOrder)));
  const auto laid_out = [&](const data::Images& images) -> Sequences {
    if (images.size() == 0) return {};
    auto flat = images.pixels.reshape({images.size(), pixels});
    if (config.permuted) flat = flat.index_select(1, order);
    return {flat.to(device), images.labels.to(device)};
  };
  train_ = laid_out(parts.train);
  validation_ = laid_out(parts.validation);
  test_ = laid_out(parts.test);
}

void PixelTask::seek(int64_t epoch, int64_t step) {
  table_.seek(epoch, step, [&] {
    const auto stream =
        data::Stream(data::mix(static_cast<uint64_t>(config_.seed), epoch, 0, data::Purpose::kOrder));
    const auto steps = steps_per_epoch();
    const auto batches = data::permutation(train_.labels.size(0), stream)
                             .narrow(0, 0, steps * config_.batch)
                             .view({steps, config_.batch});
    return share_.of(batches, 1);
  });
}

TaskBatch PixelTask::next() {
  const auto picked = table_.next();
  return {sequences(train_.pixels.index_select(0, picked)), train_.labels.index_select(0, picked)};
}

int64_t PixelTask::size(Part part) const {
  const auto& labels = part_of(part).labels;
  return labels.defined() ? labels.size(0) : 0;
}

TaskBatch PixelTask::items(Part part, int64_t from, int64_t to) const {
  const auto& all = part_of(part);
  return {sequences(all.pixels.narrow(0, from, to - from)), all.labels.narrow(0, from, to - from)};
}

}  // namespace stiefel::train
