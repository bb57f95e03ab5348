#include "join.h"

#include <stiefel/process_group.h>

#include <stdexcept>
#include <utility>

#include "error_text.h"
#include "group.h"
#include "meeting.h"

namespace stiefel::distributed {

namespace {

using std::chrono::milliseconds;

/// How long ranks whose threads are all alive may wait for each other, as in c10d: while rank 0 evaluates,
/// say.
constexpr milliseconds kSlowest = std::chrono::minutes(30);

class GroupPending final : public Pending {
 public:
  GroupPending(c10::intrusive_ptr<c10d::Work> work, at::Tensor tensor)
      : work_(std::move(work)), tensor_(std::move(tensor)) {}
  void wait() override { work_->wait(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor tensor_;  ///< lives as long as the work
};

class GroupWorld final : public World {
 public:
  GroupWorld(Meeting meeting, std::string backend, c10::intrusive_ptr<Group> group)
      : meeting_(std::move(meeting)),
        backend_(std::move(backend)),
        group_(std::move(group)),
        ranks_(ranks_of(group_)) {}
  ~GroupWorld() override { shut_down(*group_); }

  int64_t rank() const override { return group_->getRank(); }
  int64_t size() const override { return group_->getSize(); }
  std::string backend() const override { return backend_; }
  std::shared_ptr<Ranks> ranks() const override { return ranks_; }

  std::unique_ptr<Pending> start_sum_(at::Tensor tensor) override {
    std::vector<at::Tensor> tensors{tensor};
    return std::make_unique<GroupPending>(group_->allreduce(tensors), std::move(tensor));
  }

  void broadcast_(const at::Tensor& tensor, int64_t root) override {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group_->broadcast(tensors, options)->wait();
  }

  void barrier() override { meeting_.barrier(kSlowest); }

  void require_equal(const std::string& what, const std::string& text) override {
    meeting_.require_equal(what, text, kSlowest);
  }

 private:
  Meeting meeting_;
  std::string backend_;
  c10::intrusive_ptr<Group> group_;
  std::shared_ptr<Ranks> ranks_;
};

}  // namespace

std::shared_ptr<World> join(const Launch& launch, const JoinOptions& options) {
  const auto patience = 5 * options.timeout;
  auto store = open_store(launch, patience);
  Meeting meeting(store, launch);
  meeting.gather_ranks(patience);
  const auto backend = options.backend != "auto"      ? options.backend
                       : options.on_gpu && has_nccl() ? std::string("nccl")
                                                      : std::string("gloo");
  meeting.require_equal(
      "what they are",
      "processes: " + std::to_string(launch.size) + "\nbackend: " + backend + "\n" + options.identity,
      patience);
  auto group = make_group(backend, store, launch.rank, launch.size, launch.address, kSlowest);
  return std::make_shared<GroupWorld>(std::move(meeting), backend, std::move(group));
}

}  // namespace stiefel::distributed
