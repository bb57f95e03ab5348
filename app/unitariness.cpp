#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "base/progress_line.h"
#include "base/table.h"
#include "bench/threads.h"
#include "command.h"
#include "data/places.h"
#include "number_options.h"
#include "paper/unitariness.h"
#include "train/resolve_config.h"

namespace stiefel::app {

void add_unitariness(CLI::App& app) {
  auto* command = app.add_subcommand(
      "unitariness",
      "how unitary a uRNN's matrix stays under s = 0 … 4 rounds and the closed form: the paper's Table 5");
  struct Options {
    record::Config config;
    int64_t iterations = paper::kUnitarinessIterations;
    double lr = paper::kUnitarinessRestRate;
    double lr_manifold = paper::kUnitarinessRate;
    double momentum = paper::kUnitarinessMomentum;
  };
  const auto options = std::make_shared<Options>();
  auto& config = options->config;
  config.task = "pixel";
  config.model = "urnn-116";
  config.data = "mnist";
  command->add_option("--model", config.model, "urnn-N")->capture_default_str();
  command->add_option("--task", config.task, "pixel, copying or adding")->capture_default_str();
  command->add_option("--data", config.data, "mnist or fashion-mnist")->capture_default_str();
  command->add_option("--data-dir", config.data_dir, data::kDataDirHelp);
  command->add_option("--iterations", options->iterations, "training steps of each cell")
      ->capture_default_str()
      ->transform(whole_number(1, 10000000));
  command->add_option("--lr-manifold", options->lr_manifold, "rate of the unitary matrix")
      ->capture_default_str()
      ->check(number());
  command->add_option("--momentum", options->momentum, "of the unitary matrix")
      ->capture_default_str()
      ->check(number());
  command->add_option("--lr", options->lr, "rate of the other parameters, by RMSprop")
      ->capture_default_str()
      ->check(number());
  command->add_option("--batch", config.batch, "sequences per step")
      ->capture_default_str()
      ->transform(whole_number());
  command->add_option("--length", config.length, "of --task copying and adding")
      ->capture_default_str()
      ->transform(whole_number());
  command->add_option("--seed", config.seed, "of the weights and the order")
      ->capture_default_str()
      ->transform(whole_number());
  command->add_option("--device", config.device, "auto, cpu or cuda")->capture_default_str();
  command->add_option("--threads", config.threads, "of the CPU (default: $OMP_NUM_THREADS, else all cores)")
      ->transform(whole_number());
  command->callback([options] {
    auto run = options->config;
    run.optim = "cayley-sgd";
    run.lr = options->lr;
    run.lr_manifold = options->lr_manifold;
    run.momentum = options->momentum;
    train::resolve(run);
    bench::set_threads(run.threads);
    auto cells = paper::unitariness_cells();
    base::ProgressLine progress;
    paper::measure_unitariness(run, options->iterations, cells,
                               [&](const std::string& what) { progress.now(what); });
    progress.done();
    fmt::print("{} on {}, {} iterations, batch {}, rate {} on the manifold, momentum {}\n\n", run.model,
               run.task_name(), options->iterations, run.batch, options->lr_manifold, options->momentum);
    base::Table table({"form", "s", "mean ‖KᴴK−I‖", "at the end", "mean α‖W‖", "loss", "s/iteration"});
    for (const auto& cell : cells) {
      table.add({to_string(cell.form), cell.closed ? "closed" : fmt::format("{}", cell.rounds),
                 fmt::format("{:.3e}", cell.mean), fmt::format("{:.3e}", cell.last),
                 fmt::format("{:.3g}", cell.turn), fmt::format("{:.4f}", cell.loss),
                 fmt::format("{:.3f}", cell.seconds / static_cast<double>(options->iterations))});
    }
    table.print(std::cout);
  });
}

}  // namespace stiefel::app
