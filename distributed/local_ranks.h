#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch.h"

namespace stiefel::distributed {

/// How the ranks of this machine ended.
struct LocalOutcome {
  int status = 0;  ///< the exit status for the program that started them
  int signal = 0;  ///< the signal that this program was sent and that ended them, or 0
  std::string
      what;  ///< what went wrong, naming the rank; empty where nothing did, or where a rank has said it
};

/// Starts this program `count` times, with these arguments (the first is the program's name), as ranks 0 …
/// count − 1 of one launch on this machine, and waits for them. What rank 0 prints appears as it is; of the
/// others only the lines of the error stream do, each with its rank. Signals that ask this program to stop,
/// to pause or to go on are passed on. Where one rank ends with an error, the others are ended.
LocalOutcome run_local_ranks(int64_t count, const std::vector<std::string>& arguments,
                             const Environment& more);

/// Whether this process is such a rank, whose starter reports how it ends.
bool is_local_rank();

}  // namespace stiefel::distributed
