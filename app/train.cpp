#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
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
#include "distributed/text.h"
#include "number_options.h"
#include "ranks.h"
#include "record/run_facts.h"
#include "record/run_folder.h"
#include "run_model.h"
#include "train/checkpoint_content.h"
#include "train/device.h"
#include "train/even_share.h"
#include "train/network.h"
#include "train/resolve_config.h"
#include "train/trainer.h"

namespace stiefel::app {

namespace fs = std::filesystem;

namespace {

/// Throws where the folder of a new run is there already and is not empty.
void require_new(const fs::path& folder) {
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
}

/// Creates the folder of a new run. Returns whether it was created.
bool create_run_folder(const fs::path& folder) {
  require_new(folder);
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
void train_to_end(train::Trainer& trainer, const fs::path& folder, const RankOptions& ranks, bool first) {
  const auto outcome = trainer.run();
  if (outcome.signal != 0) {
    if (first) {
      base::say(fmt::format("stopped by {}; go on with: {}", base::signal_name(outcome.signal),
                            ranks.resume_command(folder)));
    }
    throw Exit{128 + outcome.signal};
  }
  if (!first) return;
  if (outcome.best_epoch) fmt::print("no epoch bettered epoch {}: stopping early\n", *outcome.best_epoch);
  fmt::print("done; see it with: stiefel report {}\n", base::shell_word(folder));
}

/// What rank 0 found in the folder of a run.
struct FoundRun {
  bool finished = false;  ///< there is nothing left to do
  std::optional<record::Checkpoints::Loaded> checkpoint;
};

/// Looks for the checkpoint to go on from. Prints why where there is nothing left to do.
FoundRun find_checkpoint(const fs::path& folder, const record::Config& config) {
  const auto status = record::status_of(folder);
  const bool finished = status == "finished";
  std::string complaint;
  auto loaded = record::Checkpoints(folder).newest(complaint, train::check_content);
  if (!complaint.empty()) base::say(complaint);
  // A run that was killed may have recorded epochs before its first checkpoint. Any other has had one:
  // without it the record is all that is left, and is not overwritten.
  const bool kept = finished || (status != "running" && has_metrics(folder));
  if (!loaded && (kept || !complaint.empty())) {
    throw std::runtime_error(fmt::format(
        "{} {}; start again into another folder", base::printable(folder),
        complaint.empty() ? "holds epochs and no checkpoint to go on from" : "has no whole checkpoint left"));
  }
  if (!loaded) return {};
  require_same_config(*loaded, config, folder);
  if (finished && loaded->state.has_stalled(config.patience)) {
    fmt::print(
        "{} is finished: it stopped early, epoch {} was its best; raise patience in its config.toml to "
        "go on\n",
        base::printable(folder), loaded->state.best_epoch);
    return {true, {}};
  }
  if (finished && loaded->state.epoch >= config.epochs) {
    fmt::print("{} is finished: {} of {} epochs\n", base::printable(folder), loaded->state.epoch,
               config.epochs);
    return {true, {}};
  }
  return {false, std::move(loaded)};
}

record::Config config_of(const fs::path& folder) {
  const auto file = folder / "config.toml";
  auto config = record::config_from_toml(base::read_file(file), file.string());
  train::resolve(config);
  return config;
}

/// What ranks of several machines may have different: where the data lies, and the like.
std::string comparable(record::Config config) {
  record::copy_result_neutral_options(config, record::Config{});
  return record::to_toml(config);
}

/// Goes on with the run in a folder. Rank 0 reads it and sends what it finds to the others, on whose machines
/// the folder need not be. `expected` is the config that the run must have, if any.
void go_on(const fs::path& folder, const std::shared_ptr<distributed::World>& world, const RankOptions& ranks,
           int64_t threads, const Context& context, const record::Config* expected) {
  const bool first = is_first(world);
  std::optional<base::FolderLock> lock;
  const auto text = distributed::ask_rank_0(world.get(), [&] {
    require_run(folder);
    auto config = config_of(folder);
    if (expected) {
      auto own = *expected;
      record::copy_result_neutral_options(own, config);
      if (const auto different = record::differences(own, config); !different.empty()) {
        throw std::runtime_error(fmt::format(
            "{} holds a run with another config; these differ: {}; choose another --out, or go on with "
            "that run: stiefel resume {}",
            base::printable(folder), fmt::join(different, ", "), base::shell_word(folder)));
      }
    }
    lock.emplace(lock_folder(folder));
    return record::to_toml(config);
  });
  auto config = record::config_from_toml(text, (folder / "config.toml").string());
  train::resolve(config);
  if (world) train::require_even_share_of_run(config, world->size());
  FoundRun found;
  const auto name = distributed::ask_rank_0(world.get(), [&] {
    found = find_checkpoint(folder, config);
    return found.finished ? std::string("finished") : found.checkpoint ? found.checkpoint->path.string() : "";
  });
  if (name == "finished") return;
  if (world && !name.empty()) {
    const auto bytes = distributed::broadcast_text(*world, first ? base::read_file(name) : std::string());
    if (!first) found.checkpoint = record::parse_checkpoint(name, bytes);
  }
  set_threads(threads, config);
  train::Trainer trainer(config, folder, context.command, world);
  if (first) print_summary(trainer, config, folder);
  if (found.checkpoint) {
    trainer.resume(*found.checkpoint);
    if (first) {
      fmt::print("going on from {}: epoch {}, step {}\n", base::printable(found.checkpoint->path.filename()),
                 found.checkpoint->state.epoch + 1, found.checkpoint->state.step);
    }
  } else if (first) {
    fmt::print("no checkpoint was written yet: starting from the beginning{}\n",
               has_metrics(folder) ? "; the epochs in metrics.jsonl are trained again" : "");
  }
  train_to_end(trainer, folder, ranks, first);
}

/// Trains a new run in a folder.
void start_run(const record::Config& config, const fs::path& folder,
               const std::shared_ptr<distributed::World>& world, const RankOptions& ranks,
               const Context& context) {
  const bool first = is_first(world);
  std::optional<base::FolderLock> lock;
  bool made = false;
  distributed::ask_rank_0(world.get(), [&] {
    made = create_run_folder(folder);
    lock.emplace(lock_folder(folder));
    return std::string();
  });
  try {
    train::Trainer trainer(config, folder, context.command, world);
    if (first) print_summary(trainer, config, folder);
    train_to_end(trainer, folder, ranks, first);
  } catch (const std::invalid_argument&) {
    std::error_code ignored;
    if (made) fs::remove(folder, ignored);  // only if nothing was written yet
    throw;
  }
}

}  // namespace

void add_train(CLI::App& app, const Context& context) {
  auto* command = app.add_subcommand("train", "train a network; the defaults are the paper's");
  const auto options = std::make_shared<ConfigOptions>();
  const auto ranks = std::make_shared<RankOptions>();
  const auto out = std::make_shared<std::string>();
  const auto resume = std::make_shared<bool>(false);
  command->add_option("--out", *out, "the run's folder (default: runs/DATA-MODEL-METHOD-SEED)");
  command->add_flag(
      "--resume", *resume,
      "go on with the run in the folder where there is one, for launchers that start a job again");
  ranks->add(*command);
  options->add(*command);
  command->callback([=, &context] {
    const auto config = options->resolved();
    const fs::path folder = out->empty() ? fmt::format("runs/{}-{}-{}-{}", config.task_name(), config.model,
                                                       config.method_name(), config.seed)
                                         : *out;
    const auto launch = ranks->find_launch();
    bench::set_threads(config.threads);
    train::make_network(config);  // a bad name fails before any work
    if (config.needs_data()) data::locate(data::facts_of(config.data), config.data_dir);
    train::require_even_share(config, launch ? launch->size : std::max<int64_t>(1, ranks->processes));
    const bool holds_run = fs::exists(folder / "config.toml");
    if (!launch && ranks->processes > 0) {
      if (!*resume || !holds_run) require_new(folder);
      return run_processes(*ranks, context, config.threads, folder);
    }
    with_world(launch, *ranks, "train", train::choose_device(config.device).is_cuda(), folder,
               [&](const auto& world) {
                 if (world) world->require_equal("the options", comparable(config));
                 // torchrun starts all ranks again where one has failed, and counts that per machine.
                 const bool may_go_on =
                     distributed::any_rank_says(world.get(), *resume || (launch && launch->attempt > 0));
                 const auto found = distributed::ask_rank_0(
                     world.get(), [&] { return std::string(holds_run ? "run" : "none"); });
                 if (may_go_on && found == "run") {
                   go_on(folder, world, *ranks, config.threads, context, &config);
                 } else {
                   start_run(config, folder, world, *ranks, context);
                 }
               });
  });
}

void add_resume(CLI::App& app, const Context& context) {
  auto* command = app.add_subcommand("resume", "go on with a run that was stopped");
  const auto run = std::make_shared<std::string>();
  const auto ranks = std::make_shared<RankOptions>();
  const auto threads = std::make_shared<int64_t>(0);
  command->add_option("RUN", *run, "the run's folder")->required();
  command->add_option("--threads", *threads, "of the CPU (default: those of the run)")
      ->transform(whole_number());
  ranks->add(*command);
  command->callback([=, &context] {
    const fs::path folder = *run;
    const auto launch = ranks->find_launch();
    // A rank of another machine may have no such folder; rank 0 reads it.
    const bool here = fs::exists(folder / "config.toml");
    if (!launch || launch->rank == 0) require_run(folder);
    const auto config = here ? config_of(folder) : record::Config{};
    if (here)
      train::require_even_share_of_run(config,
                                       launch ? launch->size : std::max<int64_t>(1, ranks->processes));
    if (!launch && ranks->processes > 0) {
      return run_processes(*ranks, context, *threads != 0 ? *threads : config.threads, folder);
    }
    const auto on_gpu = here ? std::optional(train::choose_device(config.device).is_cuda()) : std::nullopt;
    with_world(launch, *ranks, "resume", on_gpu, folder,
               [&](const auto& world) { go_on(folder, world, *ranks, *threads, context, nullptr); });
  });
}

}  // namespace stiefel::app
