#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "plan.h"

namespace stiefel::paper {

/// Makes sure that the data which the jobs need is there, before any work. Throws with the remedy.
void check_data(const std::vector<Job>& jobs);

/// Runs the jobs that are not done, one after the other, going on with those that were interrupted and
/// leaving out those that another process is at, so that several commands can share the work. `say` hears a
/// line before each with how many are left and how long it may take. Returns the signal that stopped it, or
/// 0; a stopped job goes on with the next call.
int run_jobs(std::vector<Job>& jobs, const std::filesystem::path& out, Scale scale,
             const std::vector<std::string>& command, const std::function<void(const std::string&)>& say);

}  // namespace stiefel::paper
