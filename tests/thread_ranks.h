#pragma once

#include <gtest/gtest.h>
#include <stiefel/ranks.h>
#include <torch/torch.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

// Ranks that are threads of one process, for tests of what ranks compute: no sockets, no launcher.

namespace support {

/// Where the threads leave their tensors for each other.
class Meeting {
 public:
  explicit Meeting(int64_t size) : given_(static_cast<size_t>(size)) {}

  /// The tensors that all ranks have given in this round, once all have. Throws where a rank has ended.
  std::vector<at::Tensor> exchange(int64_t rank, const at::Tensor& tensor) {
    std::unique_lock<std::mutex> lock(mutex_);
    given_[static_cast<size_t>(rank)] = tensor.clone();
    const auto round = rounds_;
    if (++here_ == given_.size()) {
      all_ = given_;
      here_ = 0;
      ++rounds_;
      all_came_.notify_all();
    } else {
      all_came_.wait(lock, [&] { return rounds_ != round || broken_; });
    }
    if (rounds_ == round) throw std::runtime_error("another rank has ended");
    ++messages;
    return all_;
  }

  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    broken_ = true;
    all_came_.notify_all();
  }

  int64_t messages = 0;  ///< tensors that were given, by all ranks

 private:
  std::mutex mutex_;
  std::condition_variable all_came_;
  std::vector<at::Tensor> given_, all_;
  size_t here_ = 0;
  int64_t rounds_ = 0;
  bool broken_ = false;
};

class ThreadRanks : public stiefel::Ranks {
 public:
  ThreadRanks(std::shared_ptr<Meeting> meeting, int64_t rank, int64_t size)
      : meeting_(std::move(meeting)), rank_(rank), size_(size) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }

  void sum_(const at::Tensor& tensor) override {
    const auto all = meeting_->exchange(rank_, tensor);
    bytes_ += static_cast<int64_t>(tensor.nbytes());
    tensor.zero_();
    for (const auto& t : all) tensor.add_(t);
  }

  at::Tensor gather(const at::Tensor& tensor) override {
    bytes_ += static_cast<int64_t>(tensor.nbytes());
    return at::stack(meeting_->exchange(rank_, tensor));
  }

  /// What this rank has given so far.
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Meeting> meeting_;
  int64_t rank_, size_;
  int64_t bytes_ = 0;
};

/// Runs `work` on every rank, each in a thread of its own. The first error of a rank is thrown once all have
/// ended.
inline void run_ranks(int64_t size, const std::function<void(const std::shared_ptr<ThreadRanks>&)>& work) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(std::make_shared<ThreadRanks>(meeting, rank, size));
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
        meeting->end();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace support
