#include "run_model.h"

#include <fmt/format.h>

#include "files/files.h"
#include "standard_streams.h"
#include "train/network.h"

namespace stiefel::app {

void require_run(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "config.toml")) return;
  throw std::runtime_error(fmt::format(
      "{} is no run's folder: it has no config.toml; name the folder that `stiefel train --out` was given",
      folder.string()));
}

OpenRun open_run(const std::filesystem::path& folder, bool last) {
  require_run(folder);
  std::string complaint;
  const train::Checkpoints checkpoints(folder);
  auto loaded = last ? checkpoints.newest(complaint) : checkpoints.best(complaint);
  if (!complaint.empty()) say(complaint);
  if (!loaded)
    throw std::runtime_error(
        fmt::format("{} has no checkpoint that can be read, so its network is not there; `stiefel report` "
                    "shows what its metrics say",
                    folder.string()));
  auto config = train::config_from_toml(loaded->config, loaded->path.string());
  config.resolve();
  return {config, std::move(*loaded)};
}

std::shared_ptr<models::Network> build_network(const OpenRun& run) {
  auto model = train::make_network(run.config);
  train::restore(run.checkpoint, *model, nullptr);
  model->eval();
  return model;
}

}  // namespace stiefel::app
