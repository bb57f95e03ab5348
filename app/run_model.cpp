#include "run_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/printable.h"
#include "base/standard_streams.h"
#include "bench/threads.h"
#include "record/config.h"
#include "train/checkpoint_content.h"
#include "train/network.h"
#include "train/resolve_config.h"

namespace stiefel::app {

void require_run(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "config.toml")) return;
  throw std::runtime_error(fmt::format(
      "{} is no run's folder: it has no config.toml; name the folder that `stiefel train --out` was given",
      base::printable(folder)));
}

void require_same_config(const record::Checkpoints::Loaded& checkpoint, const record::Config& config,
                         const std::filesystem::path& folder) {
  auto stored = record::config_from_toml(checkpoint.config, checkpoint.path.string());
  train::resolve(stored);
  record::copy_result_neutral_options(stored, config);
  stored.epochs = config.epochs;
  stored.patience = config.patience;
  const auto different = record::differences(stored, config);
  if (different.empty()) return;
  throw std::runtime_error(fmt::format(
      "{} was written with another config; these differ from {}: {}; take back what was changed, or move the "
      "checkpoint away if it is another run's",
      base::printable(checkpoint.path), base::printable(folder / "config.toml"), fmt::join(different, ", ")));
}

namespace {

/// Throws where the checkpoint is not of the run in the folder.
void require_own_checkpoint(const record::Checkpoints::Loaded& checkpoint, const record::Config& stored,
                            const std::filesystem::path& folder) {
  const auto file = folder / "config.toml";
  record::Config here;
  try {
    here = record::config_from_toml(base::read_file(file), file.string());
    train::resolve(here);
  } catch (const std::exception& error) {
    base::say(error.what());  // the checkpoint has its config with it
    return;
  }
  // A run may have gone on on another machine after its best epoch.
  here.device = stored.device;
  here.precision = stored.precision;
  here.step_precision = stored.step_precision;
  here.channels_last = stored.channels_last;
  require_same_config(checkpoint, here, folder);
}

}  // namespace

OpenRun open_run(const std::filesystem::path& folder, bool last) {
  require_run(folder);
  std::string complaint;
  const record::Checkpoints checkpoints(folder);
  auto loaded = last ? checkpoints.newest(complaint, train::check_network)
                     : checkpoints.best(complaint, train::check_network);
  if (!complaint.empty()) base::say(complaint);
  if (!loaded)
    throw std::runtime_error(
        fmt::format("{} has no checkpoint that can be read, so its network is not there; `stiefel report` "
                    "shows what its metrics say",
                    base::printable(folder)));
  auto config = record::config_from_toml(loaded->config, loaded->path.string());
  train::resolve(config);
  require_own_checkpoint(*loaded, config, folder);
  return {config, std::move(*loaded)};
}

std::shared_ptr<models::Network> build_network(const OpenRun& run) {
  auto model = train::make_network(run.config);
  record::restore(run.checkpoint, *model, nullptr);
  model->eval();
  return model;
}

void set_threads(int64_t chosen, const record::Config& config) {
  const auto most = bench::most_threads();
  if (chosen == 0 && config.threads > most) {
    base::say(fmt::format("the run's {} threads are more than this machine takes: {} are used",
                          config.threads, most));
    chosen = most;
  }
  bench::set_threads(chosen != 0 ? chosen : config.threads);
}

}  // namespace stiefel::app
