#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace stiefel::distributed {

/// Environment variables by name.
using Environment = std::map<std::string, std::string>;

/// What a launcher tells each of the processes that it starts, in the variables of torchrun: which of them it
/// is, and where all of them meet.
struct Launch {
  int64_t rank = 0;             ///< RANK
  int64_t size = 1;             ///< WORLD_SIZE
  int64_t local_rank = 0;       ///< LOCAL_RANK: chooses the GPU; 0 where each machine has one process
  std::string address;          ///< MASTER_ADDR: a host name or an address of IPv4 or IPv6
  int64_t port = 0;             ///< MASTER_PORT
  bool launcher_store = false;  ///< TORCHELASTIC_USE_AGENT_STORE: the store at the port is the launcher's
  int64_t attempt = 0;          ///< TORCHELASTIC_RESTART_COUNT

  /// ADDRESS:PORT, for messages.
  std::string meeting_place() const;
};

/// The launch that an environment describes; none where neither RANK nor WORLD_SIZE nor LOCAL_RANK is set.
/// Throws std::invalid_argument naming the variable, its value and the remedy where one is missing, wrong, or
/// contradicts another.
std::optional<Launch> read_launch(const Environment& environment);

/// Those variables of this process that read_launch() looks at.
Environment launch_variables();

/// The variables that describe a launch: what read_launch() reads.
Environment variables_of(const Launch& launch);

}  // namespace stiefel::distributed
