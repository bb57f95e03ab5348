#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>

#include "base/progress_line.h"
#include "base/table.h"
#include "bench/formats.h"
#include "bench/noise_data.h"
#include "bench/threads.h"
#include "bench/training_comparison.h"
#include "bench_parts.h"
#include "data/places.h"
#include "number_options.h"
#include "train/device.h"
#include "train/network.h"
#include "train/precision.h"
#include "train/resolve_config.h"

namespace stiefel::app {

namespace {

struct TrainingOptions {
  ComparisonOptions common;
  record::Config config;
  std::vector<std::string> models{"small"};
  bench::TrainingPlan plan;
  bool noise = false;
};

using ResultsByModel = std::vector<std::pair<std::string, std::vector<bench::Row>>>;

/// How many times SGD's step each method takes, a line per network.
void print_ratios(const ResultsByModel& tables) {
  std::vector<std::string> heading{"network", "sgd, ms"};
  for (const auto& row : tables.front().second) {
    if (row.method != "sgd") heading.push_back(row.method + ", × SGD");
  }
  base::Table summary(heading);
  for (const auto& [model, rows] : tables) {
    std::vector<std::string> cells{model, ""};
    for (const auto& row : rows) {
      if (row.method == "sgd") {
        cells[1] = std::isnan(row.median_ms) ? "–" : fmt::format("{:.3f}", row.median_ms);
      } else {
        cells.push_back(std::isnan(row.ratio_to_sgd) ? "–" : fmt::format("{:.3f}", row.ratio_to_sgd));
      }
    }
    summary.add(cells);
  }
  std::ostringstream text;
  summary.print(text);
  fmt::print("{}", text.str());
}

/// Throws where a network's name is bad, before any work.
void check_networks(const TrainingOptions& options) {
  for (const auto& model : options.models) {
    auto probe = options.config;
    probe.model = model;
    probe.optim = "sgd";
    train::resolve(probe);
    train::make_network(probe);
  }
}

std::string training_heading(const record::Config& config, const at::Device& device,
                             const TrainingOptions& options, int64_t steps_per_epoch) {
  const auto how = device.is_cuda()
                       ? fmt::format("{}{}", to_string(train::choose_precision(config, device)),
                                     config.graph == "off" ? ", kernel by kernel" : ", one CUDA graph")
                       : thread_count_text();
  const auto rounds =
      options.plan.rounds > 1 ? fmt::format(" in each of {} interleaved rounds", options.plan.rounds) : "";
  const bool overlaps = config.overlap_steps == "on";
  return fmt::format(
      "a training step of {} on {}, batch {}, {}, {}, {}medians of {} steps{}; an epoch has {}\n\n",
      config.model, options.noise ? "noise like " + config.data : config.data, config.batch, device.str(),
      how, overlaps ? "steps behind the backward pass, " : "", options.plan.steps, rounds, steps_per_epoch);
}

void compare_networks(const TrainingOptions& options) {
  const auto& common = options.common;
  if (options.models.size() > 1 && !common.for_people()) {
    throw std::invalid_argument("--format " + common.format + " takes one network; run it once for each");
  }
  const auto chosen = bench::with_baselines(bench::training_contenders(common.methods));
  check_networks(options);
  bench::set_threads(common.threads);
  const auto device = train::choose_device(common.device);
  auto config = options.config;
  config.device = common.device;
  config.threads = common.threads;
  config.step_precision = common.step_precision;
  std::optional<bench::NoiseData> noise;
  if (options.noise) config.data_dir = noise.emplace(config.data, 4 * config.batch).folder().string();
  ResultsByModel tables;
  bool measured = false;
  for (const auto& model : options.models) {
    config.model = model;
    base::ProgressLine progress;
    const auto all = bench::compare_training(chosen, config, options.plan,
                                             [&](const std::string& what) { progress.now(what); });
    progress.done();
    if (common.for_people()) {
      int64_t steps_per_epoch = 0;
      for (const auto& row : all) steps_per_epoch = std::max(steps_per_epoch, row.steps_per_epoch);
      fmt::print("{}{}", tables.empty() ? "" : "\n",
                 training_heading(config, device, options, steps_per_epoch));
    }
    const auto shown = bench::only(all, common.methods);
    fmt::print("{}", bench::format_rows(shown, common.format));
    std::fflush(stdout);
    measured = say_failures(all, shown) || measured;
    tables.emplace_back(model, all);
  }
  if (tables.size() > 1) {
    fmt::print("\n");
    print_ratios(tables);
  }
  if (!measured) throw Exit{1};
}

}  // namespace

void add_bench_training(CLI::App& group) {
  auto* command = group.add_subcommand(
      "training", "whole training steps of every method: the time column of the paper's Table 3");
  command->alias("epoch");
  const auto options = std::make_shared<TrainingOptions>();
  auto& config = options->config;
  command
      ->add_option("--model,--models", options->models,
                   "networks: small, vgg-13, vgg-16, vgg-19 or wrn-D-K; several with commas between")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--data", config.data, "data set: fashion-mnist, mnist, cifar10 or cifar100")
      ->capture_default_str();
  auto* data_dir = command->add_option("--data-dir", config.data_dir, data::kDataDirHelp);
  command
      ->add_flag("--noise", options->noise,
                 "a few random images in the format of --data in its place, so that no data set is needed")
      ->excludes(data_dir);
  command->add_option("--batch", config.batch, "images per step")
      ->capture_default_str()
      ->transform(whole_number());
  command
      ->add_option("--steps", options->plan.steps, "timed training steps of a round, after those to warm up")
      ->capture_default_str()
      ->transform(whole_number(1, 1000000));
  command
      ->add_option("--rounds", options->plan.rounds,
                   "with more than one, all methods are in memory and take turns, for steadier ratios")
      ->capture_default_str()
      ->transform(whole_number(1, 100000));
  command
      ->add_option("--precision", config.precision, "of the network on a GPU: fp32, tf32 or bf16; auto: tf32")
      ->capture_default_str();
  command
      ->add_option("--graph", config.graph,
                   "auto: the whole step as one CUDA graph on a GPU; off: kernel by kernel")
      ->capture_default_str();
  command
      ->add_option("--overlap-steps", config.overlap_steps,
                   "orthonormal weights are stepped while the backward pass goes on: on or off; auto: off")
      ->capture_default_str();
  options->common.add(*command, bench::training_contenders);
  command->callback([options] { compare_networks(*options); });
}

}  // namespace stiefel::app
