#include "join.h"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/standard_streams.h"
#include "group_world.h"
#include "heartbeat.h"
#include "meeting.h"
#include "quiet_c10d.h"
#include "store.h"

namespace stiefel::distributed {

namespace {

using std::chrono::milliseconds;

void end_process(int64_t rank, const std::string& what) {
  base::say("rank " + std::to_string(rank) + ": " + what);
  std::_Exit(EXIT_FAILURE);
}

/// Gloo's write to a rank that is gone raises SIGPIPE, which would end this rank before it can name that one.
void ignore_broken_pipes() {
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

std::shared_ptr<World> join(const Launch& launch, const JoinOptions& options) {
  // A choice that cannot be is an error before any waiting.
  if (options.on_gpu) choose_backend(options.backend, *options.on_gpu);
  const auto patience = 5 * options.timeout;
  const QuietC10d quiet;
  ignore_broken_pipes();
  // Rank 0 opens the store, and waits for nobody there.
  Meeting meeting(open_store(launch, holds_store(launch) ? options.timeout : patience), launch,
                  options.timeout);
  bool on_gpu = false;  // rank 0's
  try {
    meeting.gather_ranks(patience);
    on_gpu = meeting.ask_rank_0("on-gpu", options.on_gpu.value_or(false) ? "1" : "0", patience) == "1";
  } catch (const std::exception&) {
    // The others are to learn the same from the store, which ends with this process.
    if (holds_store(launch) && launch.size > 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    throw;
  }
  const auto backend = choose_backend(options.backend, options.on_gpu.value_or(on_gpu));
  auto on_lost = options.on_lost;
  if (!on_lost) on_lost = [rank = launch.rank](const std::string& what) { end_process(rank, what); };
  auto heartbeat = std::make_shared<Heartbeat>(launch, options.timeout, std::move(on_lost));
  try {
    run_watched(*heartbeat, [&] {
      meeting.require_equal("what runs",
                            "processes: " + std::to_string(launch.size) + "\nbackend: " + backend +
                                "\nMASTER_ADDR is this machine alone: " +
                                (is_loopback(launch.address) ? "yes" : "no") + "\n" + options.identity,
                            patience);
    });
    c10::intrusive_ptr<Group> group;
    run_watched(*heartbeat, [&] {
      group = make_group(backend, meeting.store(), launch.rank, launch.size, launch.address, kSlowest);
    });
    return make_world(std::move(meeting), heartbeat, backend, std::move(group));
  } catch (const SharedError&) {
    heartbeat->leave();
    throw;
  } catch (const std::exception&) {
    heartbeat->fail();
    throw;
  }
}

}  // namespace stiefel::distributed
