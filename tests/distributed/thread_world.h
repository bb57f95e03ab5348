#pragma once

#include <memory>
#include <string>
#include <utility>

#include "distributed/world.h"
#include "tests/thread_ranks.h"

namespace support {

/// A world whose ranks are threads. A sum is exchanged when it is waited for, which all ranks do in the same
/// order.
class ThreadWorld : public stiefel::distributed::World {
 public:
  explicit ThreadWorld(std::shared_ptr<ThreadRanks> ranks) : ranks_(std::move(ranks)) {}

  int64_t rank() const override { return ranks_->rank(); }
  int64_t size() const override { return ranks_->size(); }
  std::string backend() const override { return "threads"; }
  std::shared_ptr<stiefel::Ranks> ranks() const override { return ranks_; }

  std::unique_ptr<stiefel::distributed::Pending> start_sum_(at::Tensor tensor) override {
    ++sums;
    return std::make_unique<Sum>(ranks_, std::move(tensor));
  }
  void broadcast_(const at::Tensor& tensor, int64_t root) override {
    tensor.copy_(ranks_->gather(tensor)[root]);
  }
  void barrier() override { ranks_->gather(at::zeros({1})); }
  void require_equal(const std::string&, const std::string&) override {}

  int64_t sums = 0;  ///< all-reduces that were started

 private:
  class Sum : public stiefel::distributed::Pending {
   public:
    Sum(std::shared_ptr<ThreadRanks> ranks, at::Tensor tensor)
        : ranks_(std::move(ranks)), tensor_(std::move(tensor)) {}
    void wait() override { ranks_->sum_(tensor_); }

   private:
    std::shared_ptr<ThreadRanks> ranks_;
    at::Tensor tensor_;
  };

  std::shared_ptr<ThreadRanks> ranks_;
};

}  // namespace support
