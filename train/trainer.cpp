#include "trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/device_rates.h>
#include <stiefel/optim/manifold_optimizer.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/files.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/stopwatch.h"
#include "clip.h"
#include "data/fingerprint.h"
#include "data/seeds.h"
#include "device.h"
#include "display.h"
#include "even_share.h"
#include "half_weights.h"
#include "network.h"
#include "orthonormality.h"
#include "record/checkpoint_interval.h"
#include "record/new_run_facts.h"
#include "record/run_facts.h"
#include "record/system.h"
#include "record/tensorboard.h"
#include "replicas.h"

namespace stiefel::train {

namespace {

/// The part of a config's step that waits for the host, so that the step cannot be recorded into a CUDA
/// graph; empty where none is known to. Checked first, because a recording that breaks inside a solver can
/// leave the solver broken.
std::string what_waits_for_host(const Config& config) {
  if (config.normalization == "dbn") return "the eigenproblems of --normalisation dbn wait for the host";
  if (config.weights == "omdsm") return "the eigenproblems of --weights omdsm wait for the host";
  if (config.weights == "matrix-exp") return "the exponential of --weights matrix-exp waits for the host";
  if (config.weights == "cayley") return "the solver of --weights cayley waits for the host";
  if (config.optim == "polar") return "the SVD of --optim polar waits for the host; polar-ns has none";
  return {};
}

/// What of a run needs all gradients before the first step; empty where nothing does.
std::string what_needs_all_gradients(const Config& config, NetworkPrecision precision, bool has_world) {
  if (has_world) return "several processes average their gradients first";
  if (config.rms_scaled) return "--rms-scaled divides the gradients first";
  if (is_sequence_task(config.task) && precision != NetworkPrecision::kFp32) {
    return "the products of --precision tf32 would be those of the step too";
  }
  return {};
}

/// This process's part of every batch.
BatchShare share_of(const Config& config, const distributed::World* world) {
  if (world == nullptr) return {};
  require_even_share(config, world->size());
  return {world->rank(), world->size()};
}

/// Over which ranks batch statistics are taken.
std::shared_ptr<Ranks> ranks_of_norm(const distributed::World* world) {
  return world != nullptr && world->size() > 1 ? world->ranks() : nullptr;
}

std::vector<ManifoldOptimizer*> manifold_optimizers(const Optimizers& optimizers) {
  std::vector<ManifoldOptimizer*> found;
  for (const auto& optimizer : optimizers) {
    if (auto* ours = dynamic_cast<ManifoldOptimizer*>(optimizer.get())) found.push_back(ours);
  }
  return found;
}

/// The parts of steps behind the backward pass, and of the gradients that it hands over in bfloat16.
const OverlapOptions kOverlap;

/// Steps on a GPU between two looks at whether another rank was asked to stop: a look waits for the device.
constexpr int64_t kStepsPerLook = 64;

}  // namespace

Trainer::Trainer(const Config& config, std::filesystem::path folder, std::vector<std::string> command,
                 std::shared_ptr<distributed::World> world)
    : config_(config),
      folder_(std::move(folder)),
      command_(std::move(command)),
      world_(std::move(world)),
      share_(share_of(config, world_.get())),
      device_(choose_device(config.device)),
      precision_(choose_precision(config, device_)),
      task_(make_task(config, device_, share_)),
      model_(make_initial_network(config, device_, ranks_of_norm(world_.get()))),
      split_(split_for(*model_, config)),
      optimizers_(make_optimizers(*model_, config)),
      rates_(config, optimizers_),
      checkpoints_(folder_),
      tally_(device_),
      graph_(device_, config.graph != "off"),
      started_(record::timestamp()) {
  state_.data = task_->fingerprint();
  // Shapes never change, so that trying the algorithms of a convolution pays.
  if (device_.is_cuda()) at::globalContext().setBenchmarkCuDNN(true);
  if (config_.has_penalty()) {
    penalty_.emplace(config_, model_->split().manifold, device_);
    graph_.use(penalty_->generator());
  }
  if (const auto what = what_waits_for_host(config_); !what.empty()) graph_.refuse(what);
  for (const auto& optimizer : optimizers_) {
    if (!has_device_rates(*optimizer)) {
      graph_.refuse("an optimiser takes its rate from the host");
    }
  }
  if (world_) join_ranks();
  overlap_steps();
}

/// Has orthonormal weights stepped behind the backward pass, where that is asked for and possible.
void Trainer::overlap_steps() {
  // "auto" is off: on an H200 it saves no time (docs/performance.md). The gradient of a recurrent network's
  // matrix comes last, so there is nothing to hide its step behind.
  if (config_.overlap_steps != "on" || manifold_optimizers(optimizers_).empty()) return;
  const auto reason = what_needs_all_gradients(config_, precision_, world_ != nullptr);
  if (reason.empty()) {
    std::vector<torch::optim::Optimizer*> all;
    for (const auto& optimizer : optimizers_) all.push_back(optimizer.get());
    overlapped_ = std::make_unique<OverlappedStep>(all, kOverlap);
  } else {
    why_not_overlapped_ = "--overlap-steps on has no effect: " + reason;
  }
}

/// Checks that all ranks begin alike, and shares the work of a step among them.
void Trainer::join_ranks() {
  if (state_.data) require_same_data(*world_, *state_.data, config_, device_);
  world_->require_equal("the initial weights", weight_checksums(*model_));
  buckets_ = std::make_unique<distributed::GradientBuckets>(world_, model_->parameters());
  totals_ = std::make_unique<StepTotals>(world_, device_);
  if (config_.share_steps) {
    for (auto* optimizer : manifold_optimizers(optimizers_)) optimizer->distribute(world_->ranks());
  }
  if (world_->backend() != "nccl") {
    graph_.refuse(fmt::format("{} waits for the host; --backend nccl does not", world_->backend()));
  }
}

std::vector<std::string> Trainer::changes_of_data(const record::Checkpoints::Loaded& checkpoint) const {
  const auto& before = checkpoint.state.data;
  const auto now = task_->fingerprint();
  return before && now ? data::changes(*before, *now) : std::vector<std::string>();
}

void Trainer::resume(const record::Checkpoints::Loaded& loaded) {
  if (world_) {
    world_->require_equal("the checkpoint",
                          fmt::format("{}\n{:08x}\n", loaded.path.filename().string(),
                                      data::checksum_of(at::from_blob(
                                          const_cast<char*>(loaded.archive.data()),
                                          static_cast<int64_t>(loaded.archive.size()), at::kByte))));
  }
  if (const auto changes = changes_of_data(loaded); !changes.empty()) {
    throw std::runtime_error(fmt::format(
        "{} has changed since {} was written: {}; restore it, or name its folder as data-dir in {}",
        config_.data, base::printable(loaded.path), fmt::join(changes, ", "),
        base::printable(folder_ / "config.toml")));
  }
  record::restore(loaded, *model_, &optimizers_);
  earlier_ = record::parts_so_far(folder_);
  graph_.forget();
  state_ = loaded.state;
  state_.data = task_->fingerprint();
  tally_.reset(state_.loss_sum, state_.wrong);
}

void Trainer::one_step(int64_t step) {
  prepare_step(step);
  graph_.run([this] { step_on_device(); });
}

/// The host's part: everything that depends on where the run stands.
void Trainer::prepare_step(int64_t step) {
  const auto epoch = state_.epoch;
  rates_.apply(optimizers_, epoch, step, steps_per_epoch());
  for (auto& optimizer : optimizers_) refresh_rates(*optimizer);
  task_->seek(epoch, step);
  if (config_.dropout > 0) {
    torch::manual_seed(data::mix(static_cast<uint64_t>(config_.seed), epoch, step, data::Purpose::kDropout) +
                       static_cast<uint64_t>(share_.rank));
  }
  if (penalty_) penalty_->prepare(epoch, step);
}

/// The device's part, the same in every step, so that it can be captured once and replayed.
void Trainer::step_on_device() {
  const auto batch = task_->next();
  for (auto& optimizer : optimizers_) optimizer->zero_grad();
  at::Tensor scores;
  at::Tensor loss;
  const auto compute_gradients = [&] {
    if (buckets_) buckets_->begin();
    {
      const TensorCoreScope tensor_cores(precision_, is_sequence_task(config_.task));
      {
        const AutocastScope autocast(precision_);
        const HalfWeights halves(*model_, precision_, overlapped_ ? kOverlap.parts() : 1);
        scores = model_->forward(batch.inputs);
      }
      if (precision_ == NetworkPrecision::kBf16) scores = scores.to(at::kFloat);
      loss = task_->loss(scores, batch.targets);
      if (totals_) totals_->start(*task_, loss, scores, batch.targets);
      (penalty_ ? loss + penalty_->value() : loss).backward();
    }
    if (buckets_) buckets_->finish();
    // Euclidean ones, whose steps come after the backward pass in any case.
    if (config_.clip > 0) clip_gradients_(split_.euclidean, config_.clip);
    return loss;
  };
  if (overlapped_) {
    overlapped_->step(compute_gradients);
  } else {
    compute_gradients();
    for (auto& optimizer : optimizers_) optimizer->step();
  }
  if (totals_) {
    totals_->finish(tally_);
  } else {
    tally_.add(*task_, loss, scores, batch.targets);
  }
}

/// Whether to stop before the next step; all ranks stop before the same one.
bool Trainer::is_asked_to_stop() {
  const bool here = base::InterruptGuard::signal() != 0;
  if (!world_) return here;
  if (here) totals_->ask_to_stop();
  if (state_.step == 0) return false;  // an epoch's first step follows upon agreed_signal()
  if (device_.is_cuda() && state_.step % kStepsPerLook != 0) return false;
  return totals_->asked_to_stop();
}

/// The signal that came to this process or to another rank; 0 where none did.
int Trainer::agreed_signal() const {
  const int here = base::InterruptGuard::signal();
  return world_ ? static_cast<int>(largest_of_all(*world_, here, device_)) : here;
}

void Trainer::train_epoch(Display& display) {
  model_->train();
  const auto steps = steps_per_epoch();
  if (!why_not_overlapped_.empty()) display.note(std::exchange(why_not_overlapped_, {}));
  const base::Stopwatch stopwatch;
  const double before = state_.epoch_seconds;
  const int64_t first = state_.step;
  while (state_.step < steps && !is_asked_to_stop()) {
    one_step(state_.step);
    if (const auto reason = graph_.take_reason()) {
      display.note("no CUDA graph, so every step is launched kernel by kernel: " + *reason);
    }
    ++state_.step;
    ++state_.total_steps;
    state_.epoch_seconds = before + stopwatch.seconds();
    if (display.is_due()) {
      const auto done = static_cast<double>(state_.step);
      const auto seen = static_cast<double>(config_.batch);
      const double rate = static_cast<double>(state_.step - first) / stopwatch.seconds();
      const auto left = static_cast<double>((config_.epochs - state_.epoch) * steps - state_.step);
      display.update(
          state_.epoch + 1, state_.step, tally_.loss_sum.item<double>() / done,
          100 * tally_.wrong.item<double>() / (done * seen * static_cast<double>(task_->answers_per_item())),
          rate * seen, left / rate);
    }
  }
  state_.loss_sum = tally_.loss_sum.item<double>();  // waits for the device, so the time below is whole
  state_.wrong = tally_.wrong.item<int64_t>();
  state_.epoch_seconds = before + stopwatch.seconds();
}

int64_t Trainer::warm_up_steps() const {
  return device_.is_cuda() ? StepGraph::kWarmUps + 7 : 2;  // the recording, and a few of its replays
}

std::vector<double> Trainer::time_steps(int64_t count) {
  model_->train();
  const auto settle = [this] {
    if (device_.is_cuda()) torch::cuda::synchronize();
  };
  const int64_t block = device_.is_cuda() ? 10 : 1;
  std::vector<double> seconds;
  for (int64_t done = 0; done < count; done += block) {
    settle();
    const base::Stopwatch stopwatch;
    const int64_t steps = std::min(block, count - done);
    for (int64_t i = 0; i < steps; ++i) {
      if (state_.step == steps_per_epoch()) {
        ++state_.epoch;
        state_.step = 0;
      }
      one_step(state_.step++);
    }
    settle();
    seconds.push_back(stopwatch.seconds() / static_cast<double>(steps));
  }
  return seconds;
}

Evaluation Trainer::evaluate(Task::Part part) {
  return train::evaluate(*model_, *task_, part, precision_, is_sequence_task(config_.task), world_.get());
}

std::vector<double> Trainer::measure_defects() const {
  std::vector<double> defects;
  for (const auto& weight : measure_orthonormality(*model_, config_)) defects.push_back(weight.defect);
  return defects;
}

record::EpochMetrics Trainer::finish_epoch() {
  const auto steps = static_cast<double>(steps_per_epoch());
  const auto images = steps * static_cast<double>(config_.batch);
  record::EpochMetrics m;
  m.epoch = ++state_.epoch;
  m.step = state_.total_steps;
  m.train_loss = state_.loss_sum / steps;
  m.train_error =
      100 * static_cast<double>(state_.wrong) / (images * static_cast<double>(task_->answers_per_item()));
  m.epoch_seconds = state_.epoch_seconds;
  state_.seconds += state_.epoch_seconds;
  m.seconds = state_.seconds;
  m.images_per_second = images / m.epoch_seconds;
  if (world_ && !config_.sync_norm) share_statistics(*world_, *model_);
  const auto test = evaluate(Task::Part::kTest);
  m.test_loss = test.loss;
  m.test_error = test.error;
  if (task_->size(Task::Part::kValidation) > 0) m.validation_error = evaluate(Task::Part::kValidation).error;
  m.rate_euclidean = optimizers_.back()->param_groups()[0].options().get_lr();
  if (!split_.manifold.empty()) {
    // The last but one: the other parameters come last, and a scaling of gradients may come first.
    m.rate_manifold = optimizers_[optimizers_.size() - 2]->param_groups()[0].options().get_lr();
  }
  if (const auto defects = measure_defects(); !defects.empty()) {
    m.defect_max = *std::max_element(defects.begin(), defects.end());
    m.defect_mean =
        std::accumulate(defects.begin(), defects.end(), 0.0) / static_cast<double>(defects.size());
  }
  m.skipped_steps = skipped_steps(optimizers_);
  state_.step = 0;
  state_.epoch_seconds = 0;
  state_.loss_sum = 0;
  state_.wrong = 0;
  tally_.reset();
  return m;
}

void Trainer::checkpoint(bool best) {
  if (world_ && config_.share_steps) {
    for (auto* optimizer : manifold_optimizers(optimizers_)) optimizer->consolidate_states(0);
  }
  if (share_.rank != 0) return;
  checkpoints_.save(*model_, optimizers_, state_, record::to_toml(config_), best);
}

void Trainer::write_record(const std::string& status) const {
  if (share_.rank != 0) return;
  int64_t on_manifold = 0;
  for (const auto& weight : split_.manifold) on_manifold += weight.numel();
  auto facts = record::new_run_facts(folder_, command_, started_, config_, device_);
  facts.update({{"status", status},
                {"seconds", state_.seconds + state_.epoch_seconds},
                {"parameters", models::parameter_count(*model_)},
                {"manifold_parameters", on_manifold},
                {"manifold_matrices", split_.manifold.size()},
                {"precision", to_string(precision_)},
                {"graph", graph_.captured()},
                {"overlapped", overlaps_steps()}});
  if (world_) facts.update({{"processes", world_->size()}, {"backend", world_->backend()}});
  if (!earlier_.empty()) facts["earlier"] = earlier_;
  record::write_run_facts(folder_, facts);
}

Outcome Trainer::run() {
  const base::InterruptGuard interrupts;
  const bool writes = share_.rank == 0;
  if (writes) base::write_file(folder_ / "config.toml", record::to_toml(config_));
  write_record("running");
  if (writes) record::write_metrics(folder_, state_.history);
  const auto defects = measure_defects();
  Display display(config_.epochs, steps_per_epoch(), !defects.empty(), writes);
  display.begin(defects.empty() ? std::nullopt
                                : std::optional<double>(*std::max_element(defects.begin(), defects.end())));
  const auto started = static_cast<double>(std::time(nullptr)) - state_.seconds;
  const base::Stopwatch stopwatch;
  record::CheckpointInterval interval(config_.checkpoint_every, 0);
  while (state_.epoch < config_.epochs && !state_.has_stalled(config_.patience)) {
    train_epoch(display);
    if (const int signal = agreed_signal(); signal != 0) {
      display.clear();
      checkpoint(false);
      write_record("interrupted");
      if (world_) world_->barrier();
      return {signal, {}};
    }
    const auto metrics = finish_epoch();
    state_.history.push_back(metrics);
    display.finish_epoch(metrics);
    bool due = interval.is_due(state_.epoch, stopwatch.seconds()) || state_.epoch == config_.epochs;
    if (world_) due = as_rank_0_says(*world_, due, device_);  // their clocks differ
    const double error = metrics.deciding_error();
    // Where the best epoch decides nothing, it is only looked for among those that are written anyway.
    const bool best_matters = metrics.validation_error || config_.patience > 0;
    const bool best = (due || best_matters) && error < state_.best;
    if (best) {
      state_.best = error;
      state_.best_epoch = state_.epoch;
    }
    if (writes) record::write_metrics(folder_, state_.history);
    if (writes && config_.tensorboard) record::write_tensorboard(folder_, state_.history, started);
    if (due || best || state_.has_stalled(config_.patience)) {
      const double now = stopwatch.seconds();
      checkpoint(best);
      interval.record(now, stopwatch.seconds());
    }
    write_record("running");
  }
  // Written last, so that resuming a run that died here marks it finished.
  write_record("finished");
  if (world_) world_->barrier();
  if (state_.epoch < config_.epochs) return {0, state_.best_epoch};
  return {};
}

}  // namespace stiefel::train
