#include "network_timing.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include <map>

#include "base/interrupt.h"
#include "base/stopwatch.h"
#include "data/catalog.h"
#include "smoke_data.h"
#include "train/device.h"
#include "train/network.h"
#include "train/precision.h"
#include "train/tasks/task.h"

namespace stiefel::paper {

namespace {

/// Enough images for a CPU to be at its pace; sequences, and a GPU, are with whole batches.
constexpr int64_t kFewImages = 32;

/// The seconds that an item takes, forward and backward.
double seconds_per_item(const record::Config& config) {
  const auto device = train::choose_device(config.device);
  const auto precision = train::choose_precision(config, device);
  const bool sequence = train::is_sequence_task(config.task);
  const int64_t items = sequence || device.is_cuda() ? config.batch : kFewImages;
  const auto network = train::make_network(config);
  network->to(device);
  const auto channels = train::shape_of(config).inputs;
  auto inputs = sequence ? at::rand({items, 28 * 28, channels}) : at::rand({items, channels, 32, 32});
  inputs = inputs.to(device);
  if (!sequence && config.channels_last) inputs = inputs.contiguous(at::MemoryFormat::ChannelsLast);
  const auto pass = [&] {
    const train::TensorCoreScope tensor_cores(precision, sequence);
    at::Tensor scores;
    {
      const train::AutocastScope autocast(precision);
      scores = network->forward(inputs);
    }
    scores.to(at::kFloat).sum().backward();
  };
  const auto pass_and_wait = [&] {
    pass();
    if (device.is_cuda()) torch::cuda::synchronize();
  };
  pass_and_wait();  // in which libraries choose and allocate
  const base::Stopwatch stopwatch;
  pass_and_wait();
  return stopwatch.seconds() / static_cast<double>(items);
}

/// Items that are trained and that are looked at in an epoch.
std::pair<double, double> items_per_epoch(const record::Config& config, Scale scale) {
  double trained = kSmokeTrain;
  double tested = kSmokeTest;
  if (scale != Scale::kSmoke) {
    trained = tested = 0;
    for (const auto& file : data::facts_of(config.data).files) {
      if (file.content == data::Content::kIdxLabels) continue;
      (file.train ? trained : tested) += static_cast<double>(file.count);
    }
  }
  const auto aside = static_cast<double>(config.validation.value_or(0));
  return {trained - aside, tested + aside};
}

double seconds_of(const Job& job, double item, Scale scale) {
  const auto& config = job.spec.config;
  if (job.spec.unitariness) {
    return item * static_cast<double>(job.spec.unitariness->iterations * config.batch);
  }
  // A forward pass is a third of both.
  const auto [trained, tested] = items_per_epoch(config, scale);
  return epochs_left(job) * item * (trained + tested / 3);
}

}  // namespace

void time_networks(std::vector<Job>& jobs, Scale scale, const std::function<void(const std::string&)>& say) {
  std::map<std::string, double> known;
  for (auto& job : jobs) {
    if (job.state == Job::State::kDone || job.seconds) continue;
    if (base::InterruptGuard::signal() != 0) return;
    const auto& config = job.spec.config;
    std::string network = config.model;
    if (config.weights != "plain") network += " of " + config.weights + " weights";
    if (config.normalization != "batch") network += " with " + config.normalization;
    auto found = known.find(network);
    if (found == known.end()) {
      say("timing a pass of " + network);
      found = known.emplace(network, seconds_per_item(config)).first;
    }
    job.seconds = seconds_of(job, found->second, scale);
    job.basis = fmt::format("a pass of {} without the optimiser", network);
    job.rough = true;
  }
}

}  // namespace stiefel::paper
