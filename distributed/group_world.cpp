#include "group_world.h"

#include <stiefel/process_group.h>

#include <utility>
#include <vector>

namespace stiefel::distributed {

namespace {

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
  GroupWorld(Meeting meeting, std::shared_ptr<Heartbeat> heartbeat, std::string backend,
             c10::intrusive_ptr<Group> group)
      : meeting_(std::move(meeting)),
        heartbeat_(std::move(heartbeat)),
        backend_(std::move(backend)),
        group_(std::move(group)),
        ranks_(std::make_shared<WatchedRanks>(heartbeat_, ranks_of(group_))) {}

  /// While an error passes through, this rank ends with it, and the others are told.
  ~GroupWorld() override {
    if (std::uncaught_exceptions() > 0) {
      heartbeat_->fail();
    } else {
      heartbeat_->leave();
    }
    shut_down(*group_);
  }

  int64_t rank() const override { return group_->getRank(); }
  int64_t size() const override { return group_->getSize(); }
  std::string backend() const override { return backend_; }
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
    run_watched(*heartbeat_, [&] { meeting_.require_equal(what, text, kSlowest); });
  }

 private:
  Meeting meeting_;
  std::shared_ptr<Heartbeat> heartbeat_;
  std::string backend_;
  c10::intrusive_ptr<Group> group_;
  std::shared_ptr<Ranks> ranks_;
};

}  // namespace

std::shared_ptr<World> make_world(Meeting meeting, std::shared_ptr<Heartbeat> heartbeat, std::string backend,
                                  c10::intrusive_ptr<Group> group) {
  return std::make_shared<GroupWorld>(std::move(meeting), std::move(heartbeat), std::move(backend),
                                      std::move(group));
}

}  // namespace stiefel::distributed
