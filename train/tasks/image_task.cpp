#include "image_task.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

namespace stiefel::train {

namespace {

data::Augment augment_of(const std::string& name) { return {name != "none", name == "flip-crop"}; }

at::MemoryFormat format_of(const Config& config) {
  return config.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

}  // namespace

Parts divide(const data::Dataset& dataset, const Config& config) {
  const auto all = dataset.train.size();
  const auto aside = config.validation.value_or(0);
  if (aside >= all) {
    throw std::invalid_argument(
        fmt::format("--validation is {}, but {} has only {} training images", aside, config.data, all));
  }
  if (config.batch > all - aside) {
    throw std::invalid_argument(
        fmt::format("--batch is {}, but there are only {} training images", config.batch, all - aside));
  }
  if (aside == 0) return {dataset.train, {}, dataset.test};
  const auto parts = data::split(dataset.train, aside, static_cast<uint64_t>(config.seed));
  return {parts.train, parts.validation, dataset.test};
}

ImageTask::ImageTask(const Config& config, const at::Device& device, const BatchShare& share)
    : ImageTask(config, device, share, data::load(config.data, config.data_dir)) {}

ImageTask::ImageTask(const Config& config, const at::Device& device, const BatchShare& share,
                     const data::Dataset& dataset)
    : ImageTask(config, device, share, divide(dataset, config), data::normalization_of(dataset.train)) {
  fingerprint_ = data::fingerprint_of(dataset);
}

ImageTask::ImageTask(const Config& config, const at::Device& device, const BatchShare& share,
                     const Parts& parts, const data::Normalization& normalization)
    : config_(config),
      share_(share),
      normalization_(normalization),
      loss_(config, data::largest_factor(normalization)),
      train_(parts.train, normalization, device, format_of(config)),
      test_(parts.test, normalization, device, format_of(config)),
      table_(device) {
  if (parts.validation.size() > 0)
    validation_.emplace(parts.validation, normalization, device, format_of(config));
}

void ImageTask::seek(int64_t epoch, int64_t step) {
  table_.seek(epoch, step, [&] {
    const auto seed = static_cast<uint64_t>(config_.seed);
    const auto augment = augment_of(config_.augment);
    const auto steps = steps_per_epoch();
    auto order = train_.epoch_order(seed, epoch).narrow(0, 0, steps * config_.batch).view({steps, 1, -1});
    std::vector<at::Tensor> variants;
    for (int64_t i = 0; i < steps; ++i) {
      auto drawn = data::DeviceImages::draw_variants(config_.batch, augment, seed, epoch, i);
      if (!drawn.defined()) return share_.of(order, 2);
      variants.push_back(drawn);
    }
    return share_.of(at::cat({order, at::stack(variants).unsqueeze(1)}, 1), 2);
  });
}

TaskBatch ImageTask::next() {
  const auto row = table_.next();
  const auto batch = train_.pick(row[0], row.size(0) > 1 ? row[1] : at::Tensor());
  return {batch.images, batch.labels};
}

int64_t ImageTask::size(Part part) const {
  if (part == Part::kTest) return test_.size();
  return validation_ ? validation_->size() : 0;
}

TaskBatch ImageTask::items(Part part, int64_t from, int64_t to) const {
  const auto batch = images_of(part).range(from, to);
  return {batch.images, batch.labels};
}

TaskBatch ImageTask::raw_items(Part part, int64_t from, int64_t to) const {
  const auto batch = images_of(part).raw_range(from, to);
  return {batch.images, batch.labels};
}

const data::DeviceImages& ImageTask::images_of(Part part) const {
  return part == Part::kTest ? test_ : *validation_;
}

at::Tensor ImageTask::loss(const at::Tensor& scores, const at::Tensor& targets) const {
  return loss_(scores, targets);
}

}  // namespace stiefel::train
