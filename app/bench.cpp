#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>

#include "base/progress_line.h"
#include "base/standard_streams.h"
#include "base/table.h"
#include "bench/comparison.h"
#include "bench/formats.h"
#include "bench/threads.h"
#include "command.h"
#include "data/places.h"
#include "number_options.h"
#include "train/device.h"
#include "train/network.h"
#include "train/precision.h"
#include "train/resolve_config.h"

namespace stiefel::app {

namespace {

/// What both benchmarks are told.
struct Common {
  std::vector<std::string> methods;
  std::string device = "auto";
  std::string format = "table";
  std::string step_precision = "auto";
  int64_t threads = 0;

  void add(CLI::App& command) {
    std::string usual;
    for (const auto& contender : bench::contenders()) {
      if (contender.by_default) usual += (usual.empty() ? "" : ",") + contender.name;
    }
    command
        .add_option("--methods", methods,
                    "which (default: " + usual + "; also: matrix-exp,cayley,householder)")
        ->delimiter(',');
    command.add_option("--device", device, "auto, cpu or cuda")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
    command
        .add_option("--step-precision", step_precision,
                    "of cayley-sgd and cayley-adam on a GPU: full or mixed; auto: mixed")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "full", "mixed"}));
    command.add_option("--format", format, "table, csv, json or md")
        ->capture_default_str()
        ->check(CLI::IsMember(bench::row_formats()));
    command.add_option("--threads", threads, "of the CPU (default: $OMP_NUM_THREADS, else all cores)")
        ->transform(whole_number());
  }

  bool for_people() const { return format == "table" || format == "md"; }
};

/// Says which methods could not be measured; returns whether any of those shown could.
bool say_failures(const std::vector<bench::Row>& rows, const std::vector<bench::Row>& shown) {
  for (const auto& row : rows) {
    if (!row.failure.empty()) {
      base::say(fmt::format("{} could not be measured: {}", row.method, row.failure));
    }
  }
  return std::any_of(shown.begin(), shown.end(), [](const bench::Row& row) { return row.failure.empty(); });
}

void add_step(CLI::App& group) {
  auto* command = group.add_subcommand(
      "step",
      "one optimiser step of every method: the penalty's gradient or the parametrisation's passes, and "
      "the update, without the network");
  struct Options {
    Common common;
    std::string model;
    std::string shape;
    int64_t repetitions = 7;
  };
  const auto options = std::make_shared<Options>();
  auto* model =
      command->add_option("--model", options->model, "the weights of a network: small, vgg-16, wrn-28-10 …");
  command->add_option("--shape", options->shape, "one matrix PxN, or a stack PxNxB (default: 256x2304)")
      ->excludes(model);
  command->add_option("--repetitions", options->repetitions, "timed turns of each method")
      ->capture_default_str()
      ->transform(whole_number(1, 100000));
  options->common.add(*command);
  command->callback([options] {
    const auto& common = options->common;
    auto chosen = bench::choose_contenders(common.methods);
    bench::Subject subject;
    if (options->model.empty()) {
      subject.weights = bench::shape_workload(options->shape.empty() ? "256x2304" : options->shape);
      const auto needs = [](const bench::Contender& c) { return c.needs_network; };
      if (!common.methods.empty() && std::any_of(chosen.begin(), chosen.end(), needs)) {
        throw std::invalid_argument("dbn works on a network's activations; give --model instead of --shape");
      }
      chosen.erase(std::remove_if(chosen.begin(), chosen.end(), needs), chosen.end());
    } else {
      subject.network = bench::network_workload(options->model);
      subject.weights = subject.network->weights;
    }
    if (common.step_precision == "full") subject.precision = Precision::kFull;
    bench::set_threads(common.threads);
    const auto device = train::choose_device(common.device);
    base::ProgressLine progress;
    const auto rows =
        bench::compare_steps(bench::with_baselines(chosen), subject, device, options->repetitions,
                             [&](const std::string& what) { progress.now(what); });
    progress.done();
    if (common.for_people()) {
      const auto how = device.is_cuda()
                           ? fmt::format("CUDA graphs of {} steps, and each step launched alone (eager)",
                                         bench::kStepsPerGraph)
                           : fmt::format("{} threads", at::get_num_threads());
      fmt::print("one step on {} ({} matrices, {} weights), {}, {}, medians of {}\n\n", subject.weights.title,
                 subject.weights.matrices(), subject.weights.weights(), device.str(), how,
                 options->repetitions);
    }
    const auto shown = bench::only(rows, common.methods);
    fmt::print("{}", bench::format_rows(shown, common.format));
    std::fflush(stdout);
    if (!say_failures(rows, shown)) throw Exit{1};
  });
}

/// How many times SGD's step each method takes, a network a line.
void print_ratios(const std::vector<std::pair<std::string, std::vector<bench::Row>>>& tables) {
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

struct EpochOptions {
  Common common;
  runs::Config config;
  std::vector<std::string> models{"small"};
  int64_t steps = 20;
};

/// Throws where a network's name is bad, before any work.
void check_networks(const EpochOptions& options) {
  for (const auto& model : options.models) {
    auto probe = options.config;
    probe.model = model;
    probe.optim = "sgd";
    train::resolve(probe);
    train::make_network(probe);
  }
}

std::string epoch_heading(const runs::Config& config, const at::Device& device, int64_t steps,
                          int64_t steps_per_epoch) {
  const auto how = device.is_cuda()
                       ? fmt::format("{}{}", to_string(train::choose_precision(config, device)),
                                     config.graph == "off" ? ", kernel by kernel" : ", one CUDA graph")
                       : fmt::format("{} threads", at::get_num_threads());
  return fmt::format(
      "a training step of {} on {}, batch {}, {}, {}, medians of {} steps; an epoch has {}\n\n", config.model,
      config.data, config.batch, device.str(), how, steps, steps_per_epoch);
}

void compare_networks(const EpochOptions& options) {
  const auto& common = options.common;
  if (options.models.size() > 1 && !common.for_people()) {
    throw std::invalid_argument("--format " + common.format + " takes one network; run it once for each");
  }
  const auto chosen = bench::with_baselines(bench::choose_contenders(common.methods));
  check_networks(options);
  bench::set_threads(common.threads);
  const auto device = train::choose_device(common.device);
  auto config = options.config;
  config.device = common.device;
  config.threads = common.threads;
  config.step_precision = common.step_precision;
  std::vector<std::pair<std::string, std::vector<bench::Row>>> tables;
  bool measured = false;
  for (const auto& model : options.models) {
    config.model = model;
    base::ProgressLine progress;
    const auto all = bench::compare_epochs(chosen, config, options.steps,
                                           [&](const std::string& what) { progress.now(what); });
    progress.done();
    if (common.for_people()) {
      int64_t steps_per_epoch = 0;
      for (const auto& row : all) steps_per_epoch = std::max(steps_per_epoch, row.steps_per_epoch);
      fmt::print("{}{}", tables.empty() ? "" : "\n",
                 epoch_heading(config, device, options.steps, steps_per_epoch));
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

void add_epoch(CLI::App& group) {
  auto* command = group.add_subcommand(
      "epoch", "whole training steps of every method: the time column of the paper's Table 3");
  const auto options = std::make_shared<EpochOptions>();
  auto& config = options->config;
  command
      ->add_option("--model,--models", options->models,
                   "networks: small, vgg-13, vgg-16, vgg-19 or wrn-D-K; several with commas between")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--data", config.data, "data set: fashion-mnist, mnist, cifar10 or cifar100")
      ->capture_default_str();
  command->add_option("--data-dir", config.data_dir, data::kDataDirHelp);
  command->add_option("--batch", config.batch, "images a step")
      ->capture_default_str()
      ->transform(whole_number());
  command->add_option("--steps", options->steps, "training steps that are timed, after those to warm up")
      ->capture_default_str()
      ->transform(whole_number(1, 1000000));
  command
      ->add_option("--precision", config.precision, "of the network on a GPU: fp32, tf32 or bf16; auto: tf32")
      ->capture_default_str();
  command
      ->add_option("--graph", config.graph,
                   "auto: the whole step as one CUDA graph on a GPU; off: kernel by kernel")
      ->capture_default_str();
  options->common.add(*command);
  command->callback([options] { compare_networks(*options); });
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* group = app.add_subcommand("bench", "time every method of the paper's comparison side by side");
  group->require_subcommand(1);
  add_step(*group);
  add_epoch(*group);
}

}  // namespace stiefel::app
