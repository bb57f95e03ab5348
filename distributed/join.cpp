#include "join.h"

#include <stiefel/process_group.h>

#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/standard_streams.h"
#include "error_text.h"
#include "group.h"
#include "heartbeat.h"
#include "meeting.h"

namespace stiefel::distributed {

namespace {

using std::chrono::milliseconds;

/// How long ranks whose threads are all alive may wait for each other, as in c10d: while rank 0 evaluates,
/// say.
constexpr milliseconds kSlowest = std::chrono::minutes(30);

/// Runs a collective. Where it fails, a rank is lost more often than not: then the heartbeat ends this
/// process, with a message that names the rank.
template <class Act>
void run_watched(Heartbeat& heartbeat, const Act& act) {
  std::string what;
  try {
    act();
    return;
  } catch (const SharedError&) {
    throw;
  } catch (const std::exception& error) {
    what = error_text(error);
  }
  heartbeat.suspect();
  throw std::runtime_error("the ranks could not exchange a tensor, though all of them answer: " + what);
}

class WatchedPending final : public Pending {
 public:
  WatchedPending(std::shared_ptr<Heartbeat> heartbeat, c10::intrusive_ptr<c10d::Work> work, at::Tensor tensor)
      : heartbeat_(std::move(heartbeat)), work_(std::move(work)), tensor_(std::move(tensor)) {}
  void wait() override {
    run_watched(*heartbeat_, [this] { work_->wait(); });
  }

 private:
  std::shared_ptr<Heartbeat> heartbeat_;
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor tensor_;  ///< lives as long as the work
};

class WatchedRanks final : public Ranks {
 public:
  WatchedRanks(std::shared_ptr<Heartbeat> heartbeat, std::shared_ptr<Ranks> ranks)
      : heartbeat_(std::move(heartbeat)), ranks_(std::move(ranks)) {}

  int64_t rank() const override { return ranks_->rank(); }
  int64_t size() const override { return ranks_->size(); }
  void sum_(const at::Tensor& tensor) override {
    run_watched(*heartbeat_, [&] { ranks_->sum_(tensor); });
  }
  at::Tensor gather(const at::Tensor& tensor) override {
    at::Tensor all;
    run_watched(*heartbeat_, [&] { all = ranks_->gather(tensor); });
    return all;
  }

 private:
  std::shared_ptr<Heartbeat> heartbeat_;
  std::shared_ptr<Ranks> ranks_;
};

class GroupWorld final : public World {
 public:
  GroupWorld(Meeting meeting, std::shared_ptr<Heartbeat> heartbeat, c10::intrusive_ptr<Group> group)
      : meeting_(std::move(meeting)),
        heartbeat_(std::move(heartbeat)),
        group_(std::move(group)),
        ranks_(std::make_shared<WatchedRanks>(heartbeat_, ranks_of(group_))) {}

  /// While an error passes through, this rank ends with it, and the others are told.
  ~GroupWorld() override {
    if (std::uncaught_exceptions() > 0 && !shared_error_) {
      heartbeat_->fail();
    } else {
      heartbeat_->leave();
    }
    shut_down(*group_);
  }

  int64_t rank() const override { return group_->getRank(); }
  int64_t size() const override { return group_->getSize(); }
  std::shared_ptr<Ranks> ranks() const override { return ranks_; }

  std::unique_ptr<Pending> start_sum_(at::Tensor tensor) override {
    std::vector<at::Tensor> tensors{tensor};
    c10::intrusive_ptr<c10d::Work> work;
    run_watched(*heartbeat_, [&] { work = group_->allreduce(tensors); });
    return std::make_unique<WatchedPending>(heartbeat_, std::move(work), std::move(tensor));
  }

  void broadcast_(const at::Tensor& tensor, int64_t root) override {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    run_watched(*heartbeat_, [&] { group_->broadcast(tensors, options)->wait(); });
  }

  void barrier() override {
    run_watched(*heartbeat_, [&] { meeting_.barrier(kSlowest); });
  }

  void require_equal(const std::string& what, const std::string& text) override {
    try {
      run_watched(*heartbeat_, [&] { meeting_.require_equal(what, text, kSlowest); });
    } catch (const SharedError&) {
      shared_error_ = true;
      throw;
    }
  }

 private:
  Meeting meeting_;
  std::shared_ptr<Heartbeat> heartbeat_;
  c10::intrusive_ptr<Group> group_;
  std::shared_ptr<Ranks> ranks_;
  bool shared_error_ = false;  ///< every rank ends with it: nobody needs to be told
};

void end_process(int64_t rank, const std::string& what) {
  base::say("rank " + std::to_string(rank) + ": " + what);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

std::shared_ptr<World> join(const Launch& launch, const JoinOptions& options) {
  const auto backend = choose_backend(options.backend, options.on_gpu);
  const auto patience = 5 * options.timeout;
  auto store = open_store(launch, patience);
  Meeting meeting(store, launch);
  try {
    meeting.gather_ranks(patience);
  } catch (const std::exception&) {
    // The others are to learn the same from the store, which ends with this process.
    if (holds_store(launch) && launch.size > 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    throw;
  }
  auto on_lost = options.on_lost;
  if (!on_lost) on_lost = [rank = launch.rank](const std::string& what) { end_process(rank, what); };
  auto heartbeat = std::make_shared<Heartbeat>(launch, options.timeout, std::move(on_lost));
  try {
    run_watched(*heartbeat, [&] {
      meeting.require_equal(
          "what runs",
          "processes: " + std::to_string(launch.size) + "\nbackend: " + backend + "\n" + options.identity,
          patience);
    });
    c10::intrusive_ptr<Group> group;
    run_watched(*heartbeat, [&] {
      group = make_group(backend, store, launch.rank, launch.size, launch.address, kSlowest);
    });
    return std::make_shared<GroupWorld>(std::move(meeting), heartbeat, std::move(group));
  } catch (const SharedError&) {
    heartbeat->leave();
    throw;
  } catch (const std::exception&) {
    heartbeat->fail();
    throw;
  }
}

}  // namespace stiefel::distributed
