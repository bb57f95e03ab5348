#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launch.h"
#include "world.h"

namespace stiefel::distributed {

struct JoinOptions {
  std::string backend =
      "auto";  ///< "auto", "gloo" or "nccl"; auto is NCCL for tensors on a GPU where it can be
  /// Whether the tensors will lie on a GPU; none: as rank 0 says.
  std::optional<bool> on_gpu = false;
  /// A rank that has not been heard of for so long is lost, and ends the run on all ranks.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// Called from a thread of its own when a rank is lost, with what happened. It should end the process; the
  /// default prints the text and does.
  std::function<void(const std::string& what)> on_lost = {};
  /// What must be alike on all ranks beside the number of them: versions, a line each.
  std::string identity;
};

/// Connects this process to the other ranks of its launch, and returns when all are there. Waits for them
/// five times as long as the timeout, and for what answers at the meeting place as long as the timeout.
/// Throws where a rank does not come, has another identity or another number of ranks, where the port is
/// taken or nothing there answers as it should, and where this program has no such backend.
std::shared_ptr<World> join(const Launch& launch, const JoinOptions& options);

}  // namespace stiefel::distributed
