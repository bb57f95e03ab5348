#pragma once

#include <c10/util/intrusive_ptr.h>

#include <exception>
#include <memory>
#include <string>

#include "group.h"
#include "heartbeat.h"
#include "meeting.h"
#include "world.h"

namespace stiefel::distributed {

/// How long ranks whose threads are all alive may wait for each other, as in c10d: while rank 0 evaluates,
/// say.
constexpr std::chrono::milliseconds kSlowest = std::chrono::minutes(30);

/// Runs a collective. Where it fails, a rank is lost more often than not: then the heartbeat ends this
/// process, with a message that names the rank.
template <class Act>
void run_watched(Heartbeat& heartbeat, const Act& act) {
  try {
    act();
  } catch (const SharedError&) {
    throw;
  } catch (const std::exception&) {
    heartbeat.suspect();
    throw;
  }
}

/// A world over a process group, whose failing collectives the heartbeat explains. When it is destroyed the
/// other ranks are told that this one has done its part or, while an error passes through, that it ends with
/// it.
std::shared_ptr<World> make_world(Meeting meeting, std::shared_ptr<Heartbeat> heartbeat, std::string backend,
                                  c10::intrusive_ptr<Group> group);

}  // namespace stiefel::distributed
