#include "image_task.h"

#include <fmt/format.h>

#include <stdexcept>

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

ImageTask::ImageTask(const Config& config, const at::Device& device)
    : ImageTask(config, device, data::load(config.data, config.data_dir)) {}

ImageTask::ImageTask(const Config& config, const at::Device& device, const data::Dataset& dataset)
    : ImageTask(config, device, divide(dataset, config), data::normalisation_of(dataset.train)) {}

ImageTask::ImageTask(const Config& config, const at::Device& device, const Parts& parts,
                     const data::Normalisation& normalisation)
    : config_(config),
      train_(parts.train, normalisation, device, format_of(config)),
      test_(parts.test, normalisation, device, format_of(config)) {
  if (parts.validation.size() > 0)
    validation_.emplace(parts.validation, normalisation, device, format_of(config));
}

Task::Batch ImageTask::batch(int64_t epoch, int64_t step) {
  const auto seed = static_cast<uint64_t>(config_.seed);
  if (epoch != epoch_) {
    order_ = train_.epoch_order(seed, epoch);
    epoch_ = epoch;
  }
  const auto picked = order_.narrow(0, step * config_.batch, config_.batch);
  const auto batch = train_.batch(picked, augment_of(config_.augment), seed, epoch, step);
  return {batch.images, batch.labels};
}

int64_t ImageTask::size(Part part) const {
  if (part == Part::kTest) return test_.size();
  return validation_ ? validation_->size() : 0;
}

Task::Batch ImageTask::items(Part part, int64_t from, int64_t to) const {
  const auto batch = (part == Part::kTest ? test_ : *validation_).range(from, to);
  return {batch.images, batch.labels};
}

}  // namespace stiefel::train
