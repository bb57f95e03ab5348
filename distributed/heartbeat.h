#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "launch.h"

namespace stiefel::distributed {

/// What is written in a store about the rank that is lost; empty where none is.
std::string lost_rank(c10d::Store& store);

/// Notices that a rank is lost, and tells all others which one, while the ranks' main threads compute or wait
/// in a collective.
///
/// A thread of each rank counts up a number of its own in the store, and looks at the next rank's: where that
/// has stood still for the timeout, it writes into the store which rank is lost, where all others find it. So
/// a round costs the store a handful of requests per rank, however many ranks there are. A second thread
/// watches the first, which waits for ever where the store's machine is gone. Only time during which a
/// process itself ran counts, so that a run that is suspended as a whole goes on afterwards.
class Heartbeat {
 public:
  /// Called once, from a thread of its own, with what happened: "rank 2 has not been heard of for 60 s …". It
  /// should end the process, whose main thread may be waiting in a collective.
  using OnLost = std::function<void(const std::string& what)>;

  Heartbeat(const Launch& launch, std::chrono::milliseconds timeout, OnLost on_lost);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Tells the others that this rank has done its part, so that none of them misses it. The rank that holds
  /// the store waits for all.
  void leave();

  /// Tells the others that this rank ends with an error.
  void fail();

  /// After a collective that failed, perhaps since a rank is gone: from now on silence counts after a shorter
  /// time. Returns where no rank turns out to be lost within that.
  void suspect();

 private:
  using Milliseconds = std::chrono::milliseconds;

  void talk();
  void guard();
  void report(const std::string& what);
  bool pause();  ///< until the next round; false where there is none
  void stop();
  Milliseconds limit() const { return suspicious_ ? suspicious_timeout_ : timeout_; }
  std::string store_name() const;

  const Launch launch_;
  const Milliseconds timeout_;
  const Milliseconds interval_;
  const Milliseconds suspicious_timeout_;
  const OnLost on_lost_;
  const bool holds_store_;
  c10::intrusive_ptr<c10d::Store> store_;  ///< used by the talking thread until it has ended

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::atomic<bool> suspicious_{false};
  std::atomic<bool> reported_{false};
  std::atomic<int64_t> rounds_{0};
  bool talker_ended_ = false;
  std::thread talker_;  // after all that the threads use
  std::thread guard_;
};

}  // namespace stiefel::distributed
