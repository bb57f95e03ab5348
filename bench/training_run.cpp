#include "training_run.h"

#include <torch/torch.h>

#include <utility>

#include "data/catalog.h"
#include "models/classifier.h"
#include "start.h"
#include "train/device.h"
#include "train/resolve_config.h"
#include "train/trainer.h"

namespace stiefel::bench {

namespace {

class TrainerRun : public TrainingRun {
 public:
  explicit TrainerRun(const record::Config& config) : trainer_(config, {}, {}) {}

  std::vector<double> time_steps(int64_t count) override { return trainer_.time_steps(count); }
  int64_t warm_up_steps() const override { return trainer_.warm_up_steps(); }
  std::vector<double> defects() const override { return trainer_.measure_defects(); }
  int64_t steps_per_epoch() const override { return trainer_.steps_per_epoch(); }
  bool lacks_graph() const override { return !trainer_.graph().reason().empty(); }

 private:
  train::Trainer trainer_;
};

class PlainLoopRun : public TrainingRun {
 public:
  explicit PlainLoopRun(const record::Config& config) : device_(train::choose_device(config.device)) {
    const auto& facts = data::facts_of(config.data);
    torch::manual_seed(static_cast<uint64_t>(config.seed));
    model_ = models::make_classifier(config.model, {facts.channels(), facts.classes, config.dropout});
    model_->to(device_);
    const auto layout = config.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : model_->parameters()) {
        if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(layout));
      }
    }
    optimizer_ = std::make_unique<torch::optim::SGD>(
        model_->parameters(),
        torch::optim::SGDOptions(0.1).momentum(kMomentum).nesterov(true).weight_decay(5e-4));
    images_ = torch::randn({config.batch, facts.channels(), 32, 32}, device_).contiguous(layout);
    labels_ = torch::randint(facts.classes, {config.batch}, at::TensorOptions(device_).dtype(torch::kLong));
    model_->train();
  }

  std::vector<double> time_steps(int64_t count) override {
    std::vector<double> seconds;
    for (int64_t i = 0; i < count; ++i) seconds.push_back(seconds_of([this] { step(); }, device_));
    return seconds;
  }

  int64_t warm_up_steps() const override { return device_.is_cuda() ? 10 : 2; }

 private:
  void step() {
    optimizer_->zero_grad();
    torch::nn::functional::cross_entropy(model_->forward(images_), labels_).backward();
    optimizer_->step();
  }

  at::Device device_;
  std::shared_ptr<models::Network> model_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  at::Tensor images_;
  at::Tensor labels_;
};

}  // namespace

std::unique_ptr<TrainingRun> trainer_run(record::Config config) {
  train::resolve(config);
  return std::make_unique<TrainerRun>(config);
}

std::unique_ptr<TrainingRun> plain_loop_run(record::Config config) {
  config.optim = "sgd";
  config.step_precision = "auto";
  train::resolve(config);
  return std::make_unique<PlainLoopRun>(config);
}

}  // namespace stiefel::bench
