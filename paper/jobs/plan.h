#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "run_store.h"

namespace stiefel::paper {

/// A run that some cells need, and where it stands.
struct Job {
  enum class State { kMissing, kInterrupted, kDone };

  RunSpec spec;
  State state = State::kMissing;
  std::filesystem::path folder;   ///< where it is, or will be
  std::optional<double> seconds;  ///< what is left of it, from finished runs of the same network
  std::string basis;              ///< which those are
  bool rough = false;             ///< the seconds are of a timed pass, not of finished runs
};

/// What a job of training still has before it.
double epochs_left(const Job& job);

/// Every run that the cells need with seeds 1 … N, each once, the cheapest first. `out` holds the scales'
/// folders; times come from all of them.
std::vector<Job> make_plan(const std::vector<Cell>& cells, int64_t seeds, Scale scale,
                           const RunEnvironment& environment, const std::filesystem::path& out);

/// What is left in all with so many runs at once, of the jobs whose time is known, and for how many it is
/// not.
struct TimeLeft {
  double seconds = 0;
  int64_t known = 0;
  int64_t unknown = 0;
};
TimeLeft time_left(const std::vector<Job>& jobs, int64_t at_once);
std::string to_string(const TimeLeft& left);

}  // namespace stiefel::paper
