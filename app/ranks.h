#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "distributed/join.h"
#include "distributed/launch.h"
#include "distributed/local_ranks.h"
#include "distributed/world.h"
#include "record/config.h"

/// Training by several processes: the options, the local ranks that --processes starts, and what each of the
/// ranks does first.
namespace stiefel::app {

class RankOptions {
 public:
  void add(CLI::App& command);

  /// What a launcher has told this process; none where it is to train alone, or to start ranks itself. Throws
  /// std::invalid_argument where the launcher contradicts itself or --processes.
  std::optional<distributed::Launch> find_launch() const;

  int64_t processes = 0;  ///< how many ranks to start on this machine; 0: none
  std::string backend = "auto";
  double timeout = 60;

  /// How to go on with a run in a folder, as a command to type.
  std::string resume_command(const std::filesystem::path& folder) const;

  /// What to do after a run has ended unfinished, for messages.
  std::string remedy(const std::filesystem::path& folder) const;
};

/// Starts this command once per rank on this machine and waits for all of them. `threads` of the CPU for
/// each; 0: all cores over the ranks, unless OMP_NUM_THREADS says otherwise.
distributed::LocalOutcome start_processes(const RankOptions& options, const Context& context,
                                          int64_t threads);

/// The same for a run; what one of them has not said
/// already is reported. Throws Exit where they end with another status than 0.
void run_processes(const RankOptions& options, const Context& context, int64_t threads,
                   const std::filesystem::path& folder);

/// How this rank connects to the others, which the same command runs on. Chooses the rank's GPU.
distributed::JoinOptions join_options(const distributed::Launch& launch, const RankOptions& options,
                                      const std::string& command, std::optional<bool> on_gpu);

/// Connects this rank to the others and calls `act`. How it ends, the other ranks learn. Without a launch it
/// calls `act` with no world, and refuses a `--backend`. `on_gpu`: whether it trains on one; none: as rank 0
/// does.
void with_world(const std::optional<distributed::Launch>& launch, const RankOptions& options,
                const std::string& command, std::optional<bool> on_gpu, const std::filesystem::path& folder,
                const std::function<void(const std::shared_ptr<distributed::World>&)>& act);

/// Whether this process shows and writes what concerns all: rank 0, or the only one.
bool is_first(const std::shared_ptr<distributed::World>& world);

/// What a line on the error stream begins with: "stiefel: ", and the rank before it where there are several.
std::string error_prefix();

/// Whether this process is a rank other than 0.
bool is_other_rank();

}  // namespace stiefel::app
