#pragma once

#include <torch/nn/module.h>

#include <stdexcept>

#include "errors.h"
#include "memory_file.h"
#include "record/checkpoint.h"

namespace fuzz {

/// Reads a checkpoint: refused by std::runtime_error, or a state that is the same when it is written, with a
/// model of no weights, and read again.
inline void check_checkpoint(const std::string& file) {
  using namespace stiefel::record;
  Checkpoints::Loaded loaded;
  if (!reads<std::runtime_error>([&] { loaded = parse_checkpoint("a.ckpt", file); })) return;
  const auto& folder = memory_folder();
  const Checkpoints checkpoints(folder);
  const auto save = [&](const RunState& state) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      std::filesystem::remove(entry.path());
    checkpoints.save(torch::nn::Module(), {}, state, loaded.config, false);
    std::string complaint;
    auto found = checkpoints.newest(complaint);
    require(found && complaint.empty(), "what we write is refused: " + complaint);
    return std::move(*found);
  };
  const auto once = save(loaded.state);
  require(once.config == loaded.config, "the config changes when it is written");
  const auto twice = save(once.state);
  require(metrics_lines(twice.state.history) == metrics_lines(loaded.state.history),
          "the history changes when it is written");
  require(twice.state.epoch == loaded.state.epoch && twice.state.step == loaded.state.step &&
              twice.state.total_steps == loaded.state.total_steps &&
              twice.state.wrong == loaded.state.wrong && twice.state.best_epoch == loaded.state.best_epoch &&
              twice.state.best == loaded.state.best && twice.state.seconds == loaded.state.seconds &&
              twice.state.data.has_value() == loaded.state.data.has_value(),
          "the state changes when it is written");
}

}  // namespace fuzz
