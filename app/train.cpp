#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/folder_lock.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/standard_streams.h"
#include "bench/threads.h"
#include "command.h"
#include "config_options.h"
#include "data/catalog.h"
#include "data/places.h"
#include "number_options.h"
#include "record/run_facts.h"
#include "record/run_folder.h"
#include "run_model.h"
#include "train/checkpoint_content.h"
#include "train/network.h"
#include "train/resolve_config.h"
#include "train/trainer.h"

namespace stiefel::app {

namespace fs = std::filesystem;

namespace {

/// Creates the folder of a new run; throws where there is one already that is not empty. Returns whether it
/// was created.
bool create_run_folder(const fs::path& folder) {
  if (fs::exists(folder) && !fs::is_directory(folder)) {
    throw std::runtime_error(fmt::format("{}: is not a folder", base::printable(folder)));
  }
  // The first file of a run, which is enough to go on with it from the beginning.
  if (fs::exists(folder / "config.toml")) {
    throw std::runtime_error(
        fmt::format("{} holds a run already; choose another --out, or go on with: stiefel resume {}",
                    base::printable(folder), base::shell_word(folder)));
  }
  if (fs::exists(folder) && !record::is_unused(folder)) {
    throw std::runtime_error(fmt::format("{} is not empty; choose another --out", base::printable(folder)));
  }
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error)
    throw std::runtime_error(fmt::format("{}: cannot be made: {}", base::printable(folder), error.message()));
  return made;
}

/// Locks the folder, so that no other command runs in it.
base::FolderLock lock_folder(const fs::path& folder) {
  auto lock = base::FolderLock::try_take(folder);
  if (!lock) {
    throw std::runtime_error(fmt::format("{} is being run by another command; wait for it, or stop it first",
                                         base::printable(folder)));
  }
  return std::move(*lock);
}

/// Whether the folder records epochs, which starting again from the beginning would overwrite.
bool has_metrics(const fs::path& folder) {
  std::error_code none;
  return fs::file_size(folder / "metrics.jsonl", none) > 0 && !none;
}

void print_summary(train::Trainer& trainer, const record::Config& config, const fs::path& folder) {
  int64_t values = 0;
  for (const auto& weight : trainer.split().manifold) values += weight.numel();
  fmt::print("{} on {} with {}: {} parameters, {} in {} orthonormal matrices; into {}\n", config.model,
             config.task_name(), config.method_name(), models::parameter_count(trainer.model()), values,
             trainer.split().manifold.size(), base::printable(folder));
}

/// Trains, and prints the next command at the end.
void train_to_end(train::Trainer& trainer, const fs::path& folder) {
  const auto outcome = trainer.run();
  if (outcome.signal != 0) {
    base::say(fmt::format("stopped by {}; go on with: stiefel resume {}", base::signal_name(outcome.signal),
                          base::shell_word(folder)));
    throw Exit{128 + outcome.signal};
  }
  if (outcome.best_epoch) fmt::print("no epoch bettered epoch {}: stopping early\n", *outcome.best_epoch);
  fmt::print("done; see it with: stiefel report {}\n", base::shell_word(folder));
}

}  // namespace

void add_train(CLI::App& app, const Context& context) {
  auto* command = app.add_subcommand("train", "train a network; the defaults are the paper's");
  const auto options = std::make_shared<ConfigOptions>();
  const auto out = std::make_shared<std::string>();
  command->add_option("--out", *out, "the run's folder (default: runs/DATA-MODEL-METHOD-SEED)");
  options->add(*command);
  command->callback([=, &context] {
    const auto config = options->resolved();
    const fs::path folder = out->empty() ? fmt::format("runs/{}-{}-{}-{}", config.task_name(), config.model,
                                                       config.method_name(), config.seed)
                                         : *out;
    bench::set_threads(config.threads);
    train::make_network(config);  // a bad name fails before any work
    if (config.needs_data()) data::locate(data::facts_of(config.data), config.data_dir);
    const bool made = create_run_folder(folder);
    try {
      const auto lock = lock_folder(folder);
      train::Trainer trainer(config, folder, context.command);
      print_summary(trainer, config, folder);
      train_to_end(trainer, folder);
    } catch (const std::invalid_argument&) {
      std::error_code ignored;
      if (made) fs::remove(folder, ignored);  // only if nothing was written yet
      throw;
    }
  });
}

void add_resume(CLI::App& app, const Context& context) {
  auto* command = app.add_subcommand("resume", "go on with a run that was stopped");
  const auto run = std::make_shared<std::string>();
  const auto threads = std::make_shared<int64_t>(0);
  command->add_option("RUN", *run, "the run's folder")->required();
  command->add_option("--threads", *threads, "of the CPU (default: those of the run)")
      ->transform(whole_number());
  command->callback([=, &context] {
    const fs::path folder = *run;
    require_run(folder);
    auto config =
        record::config_from_toml(base::read_file(folder / "config.toml"), (folder / "config.toml").string());
    train::resolve(config);
    const auto lock = lock_folder(folder);
    const auto status = record::status_of(folder);
    const bool finished = status == "finished";
    std::string complaint;
    const auto loaded = record::Checkpoints(folder).newest(complaint, train::check_content);
    if (!complaint.empty()) base::say(complaint);
    // A run that was killed may have recorded epochs before its first checkpoint. Any other has had one:
    // without it the record is all that is left, and is not overwritten.
    const bool kept = finished || (status != "running" && has_metrics(folder));
    if (!loaded && (kept || !complaint.empty())) {
      throw std::runtime_error(fmt::format("{} {}; start again into another folder", base::printable(folder),
                                           complaint.empty() ? "holds epochs and no checkpoint to go on from"
                                                             : "has no whole checkpoint left"));
    }
    if (loaded) {
      require_same_config(*loaded, config, folder);
      if (finished && loaded->state.has_stalled(config.patience)) {
        fmt::print(
            "{} is finished: it stopped early, epoch {} was its best; raise patience in its config.toml to "
            "go on\n",
            base::printable(folder), loaded->state.best_epoch);
        return;
      }
      if (finished && loaded->state.epoch >= config.epochs) {
        fmt::print("{} is finished: {} of {} epochs\n", base::printable(folder), loaded->state.epoch,
                   config.epochs);
        return;
      }
    }
    set_threads(*threads, config);
    train::Trainer trainer(config, folder, context.command);
    print_summary(trainer, config, folder);
    if (loaded) {
      trainer.resume(*loaded);
      fmt::print("going on from {}: epoch {}, step {}\n", base::printable(loaded->path.filename()),
                 loaded->state.epoch + 1, loaded->state.step);
    } else {
      fmt::print("no checkpoint was written yet: starting from the beginning{}\n",
                 has_metrics(folder) ? "; the epochs in metrics.jsonl are trained again" : "");
    }
    train_to_end(trainer, folder);
  });
}

}  // namespace stiefel::app
