#pragma once

#include <filesystem>
#include <memory>

#include "record/checkpoint.h"
#include "record/config.h"
#include "train/trainer.h"

namespace stiefel::app {

/// A run whose network is used without training it.
struct OpenRun {
  record::Config config;
  record::Checkpoints::Loaded checkpoint;
};

/// Throws where the folder is not a run's, naming what is.
void require_run(const std::filesystem::path& folder);

/// Throws where a checkpoint was written with another config than that of the run in the folder, `config`:
/// by another run, or before somebody edited it. What does not change a run's course may differ, and the
/// epochs and the patience, which may be extended.
void require_same_config(const record::Checkpoints::Loaded& checkpoint, const record::Config& config,
                         const std::filesystem::path& folder);

/// Reads a run's config and its best checkpoint (or the last one). Throws where there is none.
OpenRun open_run(const std::filesystem::path& folder, bool last);

/// The network of a run with its trained weights, on the CPU; needs no data set.
std::shared_ptr<models::Network> build_network(const OpenRun& run);

/// Sets the number of threads for a run that was made earlier, perhaps on another machine: `chosen`, or where
/// that is 0 the run's own, or as many of these as this machine takes, and says so.
void set_threads(int64_t chosen, const record::Config& config);

}  // namespace stiefel::app
