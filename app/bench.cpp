#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "bench/comparison.h"
#include "bench/formats.h"
#include "bench/progress.h"
#include "command.h"
#include "threads.h"
#include "train/device.h"
#include "train/network.h"

namespace stiefel::app {

namespace {

/// What both benchmarks are told.
struct Common {
  std::vector<std::string> methods;
  std::string device = "auto";
  std::string format = "table";
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
    command.add_option("--format", format, "table, csv, json or md")
        ->capture_default_str()
        ->check(CLI::IsMember(bench::row_formats()));
    command.add_option("--threads", threads, "of the CPU (default: $OMP_NUM_THREADS, else all cores)")
        ->check(CLI::NonNegativeNumber);
  }

  bool for_people() const { return format == "table" || format == "md"; }
};

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
      ->check(CLI::Range(1, 100000));
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
    set_threads(common.threads);
    const auto device = train::choose_device(common.device);
    bench::Progress progress;
    const auto rows =
        bench::compare_steps(bench::with_baselines(chosen), subject, device, options->repetitions,
                             [&](const std::string& what) { progress.now(what); });
    progress.done();
    if (common.for_people()) {
      fmt::print("one step on {} ({} matrices, {} weights), {}, {} threads, medians of {}\n\n",
                 subject.weights.title, subject.weights.matrices(), subject.weights.weights(), device.str(),
                 at::get_num_threads(), options->repetitions);
    }
    fmt::print("{}", bench::format_rows(bench::only(rows, common.methods), common.format));
  });
}

void add_epoch(CLI::App& group) {
  auto* command = group.add_subcommand(
      "epoch", "whole training steps of every method: the time column of the paper's Table 3");
  struct Options {
    Common common;
    train::Config config;
    int64_t steps = 20;
  };
  const auto options = std::make_shared<Options>();
  auto& config = options->config;
  config.model = "small";
  command->add_option("--model", config.model, "network: small, vgg-13, vgg-16, vgg-19 or wrn-D-K")
      ->capture_default_str();
  command->add_option("--data", config.data, "data set: fashion-mnist, mnist, cifar10 or cifar100")
      ->capture_default_str();
  command->add_option("--data-dir", config.data_dir, "where to look for it first");
  command->add_option("--batch", config.batch, "images a step")->capture_default_str();
  command->add_option("--steps", options->steps, "training steps that are timed, after two to warm up")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  options->common.add(*command);
  command->callback([options] {
    const auto& common = options->common;
    auto base = options->config;
    base.device = common.device;
    base.threads = common.threads;
    const auto chosen = bench::with_baselines(bench::choose_contenders(common.methods));
    auto probe = base;
    probe.optim = "sgd";
    probe.resolve();
    train::make_network(probe);  // a bad name fails before any work
    set_threads(common.threads);
    bench::Progress progress;
    const auto rows = bench::compare_epochs(chosen, base, options->steps,
                                            [&](const std::string& what) { progress.now(what); });
    progress.done();
    if (common.for_people()) {
      fmt::print(
          "a training step of {} on {}, batch {}, {}, {} threads, medians of {} steps; an epoch has {}\n\n",
          base.model, base.data, base.batch, train::choose_device(common.device).str(), at::get_num_threads(),
          options->steps, rows.front().steps_per_epoch);
    }
    fmt::print("{}", bench::format_rows(bench::only(rows, common.methods), common.format));
  });
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* group = app.add_subcommand("bench", "time every method of the paper's comparison side by side");
  group->require_subcommand(1);
  add_step(*group);
  add_epoch(*group);
}

}  // namespace stiefel::app
