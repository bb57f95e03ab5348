#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "plan.h"

namespace stiefel::paper {

/// Makes sure that the data which the jobs need is there, before any work. Throws with the remedy.
void check_data(const std::vector<Job>& jobs);

/// How a round of jobs ended.
struct Outcome {
  int signal = 0;                   ///< the signal that stopped it, or 0
  std::vector<std::string> failed;  ///< names of runs
};

/// Runs the jobs that are not done, one after the other, going on with those that were interrupted and
/// leaving out those that another process is at, so that several commands, `at_once` in all, can share the
/// work. `say` is called with a line before each with how many are left and how long it may take. A job that
/// fails says so and stops no other. What was stopped by a signal, or failed, goes on with the next call.
Outcome run_jobs(std::vector<Job>& jobs, int64_t at_once, const std::filesystem::path& out, Scale scale,
                 const std::vector<std::string>& command, const std::function<void(const std::string&)>& say);

}  // namespace stiefel::paper
