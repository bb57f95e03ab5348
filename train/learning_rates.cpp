#include "learning_rates.h"

namespace stiefel::train {

namespace {

schedules::Factor rate_factor(const Config& config) {
  schedules::Factor factor = [](double) { return 1.0; };
  if (config.schedule == "multi-step") factor = schedules::multi_step(config.drops, config.drop_factor);
  if (config.schedule == "cosine") factor = schedules::cosine(static_cast<double>(config.epochs));
  return config.warm_up > 0 ? schedules::product({schedules::warm_up(config.warm_up), factor}) : factor;
}

}  // namespace

LearningRates::LearningRates(const Config& config, const Optimizers& optimizers)
    : within_epochs_(config.schedule == "cosine" || config.warm_up > 0) {
  for (const auto& optimizer : optimizers) schedules_.emplace_back(*optimizer, rate_factor(config));
}

void LearningRates::apply(Optimizers& optimizers, int64_t epoch, int64_t step,
                          int64_t steps_per_epoch) const {
  const double part = within_epochs_ ? static_cast<double>(step) / static_cast<double>(steps_per_epoch) : 0;
  for (size_t i = 0; i < optimizers.size(); ++i) {
    schedules_[i].apply(*optimizers[i], static_cast<double>(epoch) + part);
  }
}

}  // namespace stiefel::train
