#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/printable.h"
#include "base/standard_streams.h"
#include "command.h"
#include "run_model.h"
#include "train/device.h"
#include "train/resolve_config.h"

namespace stiefel::app {

void add_eval(CLI::App& app) {
  auto* command = app.add_subcommand("eval", "loss and error of a run's network on the test set");
  struct Options {
    std::string run;
    std::string data_dir;
    std::string device = "auto";
    bool last = false;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("RUN", options->run, "the run's folder")->required();
  command->add_option("--data-dir", options->data_dir,
                      "the only folder to look for the data in (default: as the run did)");
  command->add_option("--device", options->device, "auto, cpu or cuda")->capture_default_str();
  command->add_flag("--last", options->last, "the last checkpoint instead of the best");
  command->callback([options] {
    auto run = open_run(options->run, options->last);
    if (!options->data_dir.empty()) run.config.data_dir = options->data_dir;
    run.config.device = options->device;
    // A GPU's network is looked at on the CPU in float32.
    if (train::choose_device(options->device).is_cpu()) run.config.precision = "auto";
    train::resolve(run.config);
    set_threads(0, run.config);
    train::Trainer trainer(run.config, options->run, {});
    if (const auto changes = trainer.changes_of_data(run.checkpoint); !changes.empty()) {
      base::say(fmt::format("{} is not what {} was trained with: {}", run.config.data,
                            base::printable(run.checkpoint.path), fmt::join(changes, ", ")));
    }
    record::restore(run.checkpoint, trainer.model(), nullptr);
    const auto result = trainer.evaluate(train::Task::Part::kTest);
    fmt::print("{} after epoch {}: test loss {:.4f}, test error {:.2f} %\n",
               base::printable(run.checkpoint.path), run.checkpoint.state.epoch, result.loss, result.error);
  });
}

}  // namespace stiefel::app
